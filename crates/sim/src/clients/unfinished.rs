//! The beginnings of requests, in each protocol, and what is said when no more follows.

use super::Nonsense;

/// A beginning. To the first of a table so much is added.
pub(super) fn bytes(table: &[Nonsense], kind: usize, more: usize) -> Vec<u8> {
    let kind = kind % table.len();
    let more = if kind == 0 { more } else { 0 };
    [table[kind].0.as_bytes(), &b"x".repeat(more)].concat()
}

pub(super) const GOQUEUE: &[Nonsense] = &[
    ("ADD\0a\0\0\0\0\0\0\0\0\0\0\0\x10\0", "Malformed ADD command: failed to parse job data"),
    ("ADD\0a", "Malfromed ADD command: failed to parse queue name"),
    ("ADD\0a\0\0\0\0", "Malformed ADD command: failed to parse priority"),
    ("ADD\0a\0\0\0\0\0\0\0", "Malformed ADD command: failed to parse ttp"),
    ("DELETE\0\x01\0\0", "Malformed DELETE command: failed to parse job ID"),
    ("RESERVE\0a", "Malfromed RESERVE command: failed to parse queue name"),
    ("RESERVE\0a\0\x01", "Malformed ADD command: failed to parse timeout"),
];

pub(super) const TAKEANUMBER: &[Nonsense] = &[("ADD a 1 ", ""), ("*4\r\n$3\r\nADD\r\n$1\r\na\r\n", "")];

pub(super) const MASENKO: &[Nonsense] =
    &[("PUSH {\"name\":\"", ""), ("ATOMIC\nPUSH {\"name\":\"n\",\"queue\":\"a\"}\n", "")];

pub(super) const JOBCENTRE: &[Nonsense] = &[("{\"request\":\"put\",\"queue\":\"", "")];

pub(super) const WORKQ: &[Nonsense] = &[
    ("add 6ba7b810-9dad-41d1-80b4-ffffffffffff a 1 1 1000000\r\n", ""),
    ("complete 6ba7b810-9dad-41d1-80b4-ffffffffffff 5\r\n", ""),
    ("lease a ", ""),
];

pub(super) const BEANSTALKD: &[Nonsense] =
    &[("put 0 0 60 1000000\r\n", ""), ("put 0 0 60 5\r\nab", ""), ("reserve-with-timeout 1", ""), ("quit", "")];
