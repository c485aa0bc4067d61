//! beanstalkd: CRLF lines of a verb and its words, and bodies whose size the line before them says.
#![cfg_attr(not(test), expect(dead_code, reason = "no port speaks it yet"))]

mod line;
