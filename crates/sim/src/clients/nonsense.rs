//! What is no proper request, in each protocol, and what is said to it whatever the server's state is.

use super::takeanumber::array;

/// Something to say, and the refusal that follows.
pub type Nonsense = (&'static str, &'static str);

/// Stands for a name that is too long.
const LONG: char = '@';

/// The bytes of something.
pub(super) fn bytes(table: &[Nonsense], kind: usize) -> Vec<u8> {
    let said = table[kind % table.len()].0;
    match said.strip_prefix("* ") {
        // An array, as clients of Redis send it; two quotes are nothing.
        Some(words) => {
            array(&words.split(' ').map(|word| if word == "''" { "" } else { word }).collect::<Vec<_>>()).into()
        }
        None => said.replace(LONG, &"x".repeat(256)).into_bytes(),
    }
}

pub(super) const GOQUEUE: &[Nonsense] = &[
    ("FOO\0", "Unknown Command FOO"),
    ("ADD\0\0\0\0\0\0\0\0\0\0\x01\0\0\0x", "Error adding new job to queue "),
    ("DELETE\0\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f", "Job 9187201950435737471 already deleted"),
];

pub(super) const TAKEANUMBER: &[Nonsense] = &[
    ("FOO\r\n", "ERR Unrecognized command."),
    ("\r\n", "ERR Unrecognized command."),
    ("ADD q\r\n", "ERR Missing ADD parameters."),
    ("ADD q x y\r\n", "ERR Invalid number of retries."),
    ("DONE a nothing\r\n", "ERR No such Id."),
    ("RETRY a nothing\r\n", "ERR No retries remaining."),
    ("DONE a\r\n", "ERR Missing DONE parameters."),
    ("RETRY a\r\n", "ERR Missing RETRY parameters."),
    ("* ADD q 1 ''", "ERR No body provided."),
    ("* LEN q x", "ERR Wrong number of parameters."),
    ("* LEN", "ERR Missing LEN parameters."),
    ("* RESERVE", "ERR Missing RESERVE parameters."),
    ("* HELLO 9", "NOPROTO unsupported protocol version"),
    ("* HELLO 3 FOO", "ERR Syntax error in HELLO option."),
    ("* CLIENT SETNAME \u{e9}", "ERR Client name must be at most 256 visible ASCII characters."),
    ("* CLIENT", "ERR Missing CLIENT parameters."),
    ("* CLIENT FOO", "ERR Unrecognized CLIENT subcommand."),
    ("* COMMAND FOO", "ERR Unrecognized COMMAND subcommand."),
    ("* AUTH", "ERR Missing AUTH parameters."),
    ("* ECHO", "ERR Missing ECHO parameters."),
    ("* SELECT", "ERR Missing SELECT parameters."),
    ("* SELECT 1", "ERR DB index is out of range: there is only 0."),
];

pub(super) const MASENKO: &[Nonsense] = &[
    ("DANCE\n", r#"ERR {"msg":"unknown verb DANCE"}"#),
    ("PUSH {\n", r#"ERR {"msg":"cannot unmarshal payload"}"#),
    ("PUSH {\"name\":\"n\",\"queue\":\"!\"}\n", r#"ERR {"msg":"invalid queue name \"!\""}"#),
    ("PUSH {\"name\":\"\"}\n", r#"ERR {"msg":"invalid task name \"\""}"#),
    ("PUSH {\"name\":\"@\"}\n", r#"ERR {"msg":"task name is longer than 255 bytes"}"#),
    ("PUSH {\"name\":\"n\",\"queue\":\"@\"}\n", r#"ERR {"msg":"queue name is longer than 255 bytes"}"#),
    (
        "PUSH {\"name\":\"n\",\"blocked_by\":[-1]}\n",
        r#"ERR {"msg":"cannot use relative blocked by outside of a transaction"}"#,
    ),
    ("FETCH {\"timeout\":0}\n", r#"ERR {"msg":"timeout must be greater than zero"}"#),
    ("ACK {\"id\":0}\n", r#"ERR {"msg":"missing id"}"#),
    ("ACK {\"id\":99999999}\n", r#"ERR {"msg":"task not acquired"}"#),
    ("ACK {\n", r#"ERR {"msg":"unmarshal payload: not valid JSON"}"#),
    ("ACK []\n", r#"ERR {"msg":"unmarshal payload: not a JSON object"}"#),
    ("NACK {\"id\":\"x\"}\n", r#"ERR {"msg":"unmarshal payload: id is not an unsigned integer"}"#),
    ("ATOMIC\nPUSH {\nDONE\n", r#"ERR {"msg":"message 0: PUSH: cannot unmarshal payload"}"#),
    (
        "ATOMIC\nPUSH {\"name\":\"n\",\"queue\":\"!\"}\nDONE\n",
        r#"ERR {"msg":"message 0: PUSH: invalid queue name \"!\""}"#,
    ),
    (
        "ATOMIC\nPUSH {\"name\":\"n\"}\nPUSH {\"name\":\"\"}\nDONE\n",
        r#"ERR {"msg":"message 1: PUSH: invalid task name \"\""}"#,
    ),
    ("ATOMIC\nPUSH {\"name\":\"@\"}\nDONE\n", r#"ERR {"msg":"message 0: PUSH: task name is longer than 255 bytes"}"#),
    (
        "ATOMIC\nPUSH {\"name\":\"n\",\"queue\":\"@\"}\nDONE\n",
        r#"ERR {"msg":"message 0: PUSH: queue name is longer than 255 bytes"}"#,
    ),
    (
        "ATOMIC\nPUSH {\"name\":\"n\",\"blocked_by\":[0]}\nDONE\n",
        r#"ERR {"msg":"message 0: PUSH: cannot self reference in blocked by"}"#,
    ),
    (
        "ATOMIC\nPUSH {\"name\":\"n\",\"blocked_by\":[-1]}\nDONE\n",
        r#"ERR {"msg":"message 0: PUSH: invalid relative task position in blocked by"}"#,
    ),
    ("ATOMIC\nACK {}\nDONE\n", r#"ERR {"msg":"message 0: ACK: missing id"}"#),
    ("ATOMIC\nACK {\nDONE\n", r#"ERR {"msg":"message 0: ACK: unmarshal payload: not valid JSON"}"#),
    ("ATOMIC\nACK {\"id\":99999999}\nDONE\n", r#"ERR {"msg":"task 99999999 not acquired"}"#),
    ("ATOMIC\nNACK {\"id\":1}\nDONE\n", r#"ERR {"msg":"NACK is not allowed in transaction."}"#),
];

pub(super) const JOBCENTRE: &[Nonsense] = &[
    ("{\"request\":\"dance\"}\n", r#"{"status":"error","error":"Unrecognised request type."}"#),
    ("{\n", r#"{"status":"error","error":"Not valid JSON."}"#),
    ("[]\n", r#"{"status":"error","error":"Not a JSON object."}"#),
    ("{}\n", r#"{"status":"error","error":"Field request is missing."}"#),
    ("{\"request\":1}\n", r#"{"status":"error","error":"Field request must be a string."}"#),
    ("{\"request\":\"put\"}\n", r#"{"status":"error","error":"Field queue is missing."}"#),
    ("{\"request\":\"put\",\"queue\":1}\n", r#"{"status":"error","error":"Field queue must be a string."}"#),
    (
        "{\"request\":\"put\",\"queue\":\"\\ud800\",\"job\":{},\"pri\":1}\n",
        r#"{"status":"error","error":"Field queue holds half a surrogate pair, which is no character."}"#,
    ),
    ("{\"request\":\"put\",\"queue\":\"q\"}\n", r#"{"status":"error","error":"Field job is missing."}"#),
    (
        "{\"request\":\"put\",\"queue\":\"q\",\"job\":1}\n",
        r#"{"status":"error","error":"Field job must be an object."}"#,
    ),
    ("{\"request\":\"put\",\"queue\":\"q\",\"job\":{}}\n", r#"{"status":"error","error":"Field pri is missing."}"#),
    (
        "{\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":-1}\n",
        r#"{"status":"error","error":"Field pri must be a non-negative integer."}"#,
    ),
    (
        "{\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":900000000000000000000000000000000000000}\n",
        r#"{"status":"error","error":"Field pri must be at most 10^38."}"#,
    ),
    ("{\"request\":\"get\"}\n", r#"{"status":"error","error":"Field queues is missing."}"#),
    (
        "{\"request\":\"get\",\"queues\":[1]}\n",
        r#"{"status":"error","error":"Field queues must be an array of strings."}"#,
    ),
    (
        "{\"request\":\"get\",\"queues\":[\"\\ud800\"]}\n",
        r#"{"status":"error","error":"Field queues holds half a surrogate pair, which is no character."}"#,
    ),
    (
        "{\"request\":\"get\",\"queues\":[\"q\"],\"wait\":1}\n",
        r#"{"status":"error","error":"Field wait must be true or false."}"#,
    ),
    ("{\"request\":\"delete\"}\n", r#"{"status":"error","error":"Field id is missing."}"#),
    ("{\"request\":\"delete\",\"id\":1.5}\n", r#"{"status":"error","error":"Field id must be an integer."}"#),
    ("{\"request\":\"delete\",\"id\":99999999}\n", "no-job"),
];

pub(super) const BEANSTALKD: &[Nonsense] = &[
    ("dance\r\n", "UNKNOWN_COMMAND"),
    ("\r\n", "UNKNOWN_COMMAND"),
    ("RESERVE\r\n", "UNKNOWN_COMMAND"),
    ("put 0 0 60 x\r\n", "BAD_FORMAT"),
    ("put 0 0 60 1 1\r\n", "BAD_FORMAT"),
    ("put 0 0 60 1\r\nxyz", "EXPECTED_CRLF"),
    ("reserve-job\r\n", "BAD_FORMAT"),
    ("reserve-job 18446744073709551616\r\n", "BAD_FORMAT"),
    ("pause-tube never-made 0\r\n", "NOT_FOUND"),
    ("pause-tube a x\r\n", "BAD_FORMAT"),
    ("reserve-with-timeout 9223372036854775808\r\n", "BAD_FORMAT"),
    ("use @\r\n", "BAD_FORMAT"),
    ("watch -a\r\n", "BAD_FORMAT"),
    ("stats-tube never-made\r\n", "NOT_FOUND"),
    ("delete 99999999\r\n", "NOT_FOUND"),
    ("release 99999999 0 0\r\n", "NOT_FOUND"),
    ("bury 99999999 0\r\n", "NOT_FOUND"),
    ("touch 99999999\r\n", "NOT_FOUND"),
    ("kick-job 99999999\r\n", "NOT_FOUND"),
    ("kick x\r\n", "BAD_FORMAT"),
    ("peek 99999999\r\n", "NOT_FOUND"),
    ("stats-job 18446744073709551616\r\n", "BAD_FORMAT"),
];

pub(super) const WORKQ: &[Nonsense] = &[
    ("dance\r\n", "-CLIENT-ERROR Unknown command"),
    ("add x\r\n", "-CLIENT-ERROR Invalid command args"),
    ("delete x\r\n", "-CLIENT-ERROR Invalid ID"),
    ("inspect queue never-made\r\n", "-NOT-FOUND"),
    ("lease q x\r\n", "-CLIENT-ERROR Invalid wait timeout"),
    ("inspect jobs a x 1\r\n", "-CLIENT-ERROR Invalid cursor offset"),
    ("inspect jobs a 0 0\r\n", "-CLIENT-ERROR Invalid limit"),
    ("add 6ba7b810-9dad-41d1-80b4-ffffffffffff ! 1 1 1\r\nx\r\n", "-CLIENT-ERROR Invalid Name"),
    ("add 6ba7b810-9dad-41d1-80b4-ffffffffffff a 0 1 1\r\nx\r\n", "-CLIENT-ERROR Invalid TTR"),
    ("add 6ba7b810-9dad-41d1-80b4-ffffffffffff a 1 0 1\r\nx\r\n", "-CLIENT-ERROR Invalid TTL"),
    ("add 6ba7b810-9dad-41d1-80b4-ffffffffffff a 1 1 1\r\nxyz", "-CLIENT-ERROR Invalid payload size"),
    ("add 6ba7b810-9dad-41d1-80b4-ffffffffffff a 1 1 1 -priority=x\r\nx\r\n", "-CLIENT-ERROR Invalid Priority"),
    ("add 6ba7b810-9dad-41d1-80b4-ffffffffffff a 1 1 1 -max-fails=256\r\nx\r\n", "-CLIENT-ERROR Invalid Max Fails"),
    (
        "add 6ba7b810-9dad-41d1-80b4-ffffffffffff a 1 1 1 -max-attempts=256\r\nx\r\n",
        "-CLIENT-ERROR Invalid Max Attempts",
    ),
    ("inspect server -a=\r\n", "-CLIENT-ERROR Invalid command flags"),
    ("schedule 6ba7b810-9dad-41d1-80b4-ffffffffffff a 1 1 tomorrow 1\r\nx\r\n", "-CLIENT-ERROR Invalid Time"),
];

/// After these nobody can tell what follows: they are refused, and the connection ends.
pub(super) const GOQUEUE_BLUNDERS: &[Nonsense] =
    &[("ADD\0a\0\0\0\0\0\0\0\0\0\x01\0\0\x01", "Job data is larger than 16777216 bytes")];

pub(super) const TAKEANUMBER_BLUNDERS: &[Nonsense] = &[
    ("*4\r\n$3\r\nADD\r\n$1\r\na\r\n$1\r\n1\r\n$16777217\r\n", "ERR Body is longer than 16777216 bytes."),
    ("*1\r\n$18446744073709551616\r\n", "ERR Array is longer than 16842752 bytes."),
    ("*1025\r\n", "ERR Array is longer than 1024 elements."),
    ("*x\r\n", "ERR Protocol error: invalid multibulk length"),
    ("*1\r\n$x\r\n", "ERR Protocol error: invalid bulk length"),
    ("*1\r\n:1\r\n", "ERR Protocol error: expected '$', got ':'"),
    ("*1\r\n$3\r\nLENGTH\r\n", "ERR Protocol error: expected CRLF after bulk string"),
    ("*1\n", "ERR Protocol error: expected CRLF after a length"),
    ("*0000000000000000000000000000000001\r\n", "ERR Protocol error: too long a length"),
];

pub(super) const WORKQ_BLUNDERS: &[Nonsense] = &[
    ("add 6ba7b810-9dad-41d1-80b4-ffffffffffff a 1 1 1048577\r\n", "-CLIENT-ERROR Invalid payload size"),
    ("fail 6ba7b810-9dad-41d1-80b4-ffffffffffff 1048577\r\n", "-CLIENT-ERROR Invalid result size"),
];
