//! What must have been answered, refused and recorded in many schedules: a run in which one of these never came has shown
//! nothing about it.

use jobyard_engine::RECORD_KINDS;

use crate::clients::{Ask, SPEAKERS, Speaker};

/// Answers and refusals, by command. Numbers are written as 0.
pub const ANSWERS: &[&str] = &[
    "beanstalkd bury answered: done",
    "beanstalkd bury refused: NOT_FOUND",
    "beanstalkd claim-origins answered: done",
    "beanstalkd claim-origins refused: TAKEN",
    "beanstalkd close-origin answered: done",
    "beanstalkd close-origin refused: NOT_CLAIMED",
    "beanstalkd close-origin refused: NOT_FOUND",
    "beanstalkd delete answered: done",
    "beanstalkd delete refused: NOT_FOUND",
    "beanstalkd ignore answered: done",
    "beanstalkd ignore refused: NOT_IGNORED",
    "beanstalkd kick answered: none let back in",
    "beanstalkd kick answered: some let back in",
    "beanstalkd kick-job answered: done",
    "beanstalkd kick-job refused: NOT_FOUND",
    "beanstalkd list-origins answered: facts",
    "beanstalkd list-tube-used answered: facts",
    "beanstalkd list-tubes answered: facts",
    "beanstalkd list-tubes-watched answered: facts",
    "beanstalkd pause-tube answered: done",
    "beanstalkd pause-tube refused: NOT_FOUND",
    "beanstalkd peek answered: a list",
    "beanstalkd peek refused: NOT_FOUND",
    "beanstalkd peek-buried answered: a list",
    "beanstalkd peek-buried refused: NOT_FOUND",
    "beanstalkd peek-delayed answered: a list",
    "beanstalkd peek-delayed refused: NOT_FOUND",
    "beanstalkd peek-ready answered: a list",
    "beanstalkd peek-ready refused: NOT_FOUND",
    "beanstalkd put answered: put",
    "beanstalkd put refused: DRAINING",
    "beanstalkd put refused: OUT_OF_MEMORY",
    "beanstalkd put-origin answered: put",
    "beanstalkd put-origin refused: DRAINING",
    "beanstalkd put-origin refused: NOT_CLAIMED",
    "beanstalkd put-origin refused: OPEN",
    "beanstalkd put-origin refused: OUT_OF_MEMORY",
    "beanstalkd release answered: done",
    "beanstalkd release refused: NOT_FOUND",
    "beanstalkd reserve answered: a job",
    "beanstalkd reserve answered: a job's time is nearly over",
    "beanstalkd reserve answered: nothing",
    "beanstalkd reserve refused: OUT_OF_MEMORY",
    "beanstalkd reserve-job answered: a job",
    "beanstalkd reserve-job refused: NOT_FOUND",
    "beanstalkd reserve-with-timeout answered: a job",
    "beanstalkd reserve-with-timeout answered: a job's time is nearly over",
    "beanstalkd reserve-with-timeout answered: nothing",
    "beanstalkd reserve-with-timeout refused: OUT_OF_MEMORY",
    "beanstalkd stats answered: facts",
    "beanstalkd stats-job answered: facts",
    "beanstalkd stats-job refused: NOT_FOUND",
    "beanstalkd stats-tube answered: a count",
    "beanstalkd stats-tube answered: facts",
    "beanstalkd stats-tube refused: NOT_FOUND",
    "beanstalkd touch answered: done",
    "beanstalkd touch refused: NOT_FOUND",
    "beanstalkd use answered: done",
    "beanstalkd use refused: OUT_OF_MEMORY",
    "beanstalkd watch answered: done",
    "beanstalkd watch refused: OUT_OF_MEMORY",
    "goqueue ADD answered: put",
    "goqueue ADD refused: The server has as many queues as it may have",
    "goqueue ADD refused: The server is about to stop and takes no more jobs",
    "goqueue ADD refused: The server is out of memory",
    "goqueue ADD refused: The server's disk is full",
    "goqueue CONNECT answered: a count",
    "goqueue DELETE answered: done",
    "goqueue DELETE refused: Job 0 already deleted",
    "goqueue RESERVE answered: a job",
    "goqueue RESERVE answered: nothing",
    "goqueue unfinished refused: Malformed ADD command: failed to parse job data",
    "goqueue unfinished refused: Malformed ADD command: failed to parse priority",
    "goqueue unfinished refused: Malformed ADD command: failed to parse timeout",
    "goqueue unfinished refused: Malformed ADD command: failed to parse ttp",
    "goqueue unfinished refused: Malformed DELETE command: failed to parse job ID",
    "goqueue unfinished refused: Malfromed ADD command: failed to parse queue name",
    "goqueue unfinished refused: Malfromed RESERVE command: failed to parse queue name",
    "jobcentre abort answered: done",
    "jobcentre abort refused: no-job",
    "jobcentre abort refused: {\"status\":\"error\",\"error\":\"You are not working on that job.\"}",
    "jobcentre delete answered: done",
    "jobcentre delete refused: no-job",
    "jobcentre get answered: a job",
    "jobcentre get answered: nothing",
    "jobcentre get refused: {\"status\":\"error\",\"error\":\"You are working on 0 jobs already.\"}",
    "jobcentre put answered: put",
    "jobcentre put refused: {\"status\":\"error\",\"error\":\"The server is about to stop and takes no more jobs.\"}",
    "jobcentre put refused: {\"status\":\"error\",\"error\":\"There are 0 queues already; no more can be made.\"}",
    "jobcentre put refused: {\"status\":\"error\",\"error\":\"There is no room for another job.\"}",
    "jobcentre put refused: {\"status\":\"error\",\"error\":\"There is no room on the disk.\"}",
    "masenko ACK answered: done",
    "masenko ACK refused: ERR {\"msg\":\"task not acquired\"}",
    "masenko ATOMIC answered: put",
    "masenko ATOMIC refused: ERR {\"msg\":\"message 0: PUSH: there are 0 queues already\"}",
    "masenko ATOMIC refused: ERR {\"msg\":\"no room on the disk\"}",
    "masenko ATOMIC refused: ERR {\"msg\":\"server is about to stop and takes no more tasks\"}",
    "masenko ATOMIC refused: ERR {\"msg\":\"task 0 not acquired\"}",
    "masenko FETCH answered: a job",
    "masenko FETCH answered: nothing",
    "masenko FETCH refused: ERR {\"msg\":\"at most 0 tasks can be acquired at once\"}",
    "masenko INFO answered: a count",
    "masenko INFO answered: facts",
    "masenko NACK answered: done",
    "masenko NACK refused: ERR {\"msg\":\"task not acquired\"}",
    "masenko PING answered: done",
    "masenko PUSH answered: put",
    "masenko PUSH refused: ERR {\"msg\":\"no room for another task\"}",
    "masenko PUSH refused: ERR {\"msg\":\"no room on the disk\"}",
    "masenko PUSH refused: ERR {\"msg\":\"server is about to stop and takes no more tasks\"}",
    "masenko PUSH refused: ERR {\"msg\":\"there are 0 queues already\"}",
    "masenko QUIT answered: done",
    "takeanumber ADD answered: put",
    "takeanumber ADD refused: ERR Disk full.",
    "takeanumber ADD refused: ERR Out of memory.",
    "takeanumber ADD refused: ERR Server is about to stop and takes no more jobs.",
    "takeanumber ADD refused: ERR Too many queues.",
    "takeanumber AUTH answered: facts",
    "takeanumber CLIENT GETNAME answered: facts",
    "takeanumber CLIENT ID answered: facts",
    "takeanumber CLIENT MAINT_NOTIFICATIONS answered: facts",
    "takeanumber CLIENT NO-EVICT answered: facts",
    "takeanumber CLIENT NO-TOUCH answered: facts",
    "takeanumber CLIENT SETINFO answered: facts",
    "takeanumber CLIENT SETNAME answered: facts",
    "takeanumber COMMAND COUNT answered: facts",
    "takeanumber COMMAND DOCS answered: facts",
    "takeanumber COMMAND answered: facts",
    "takeanumber DONE answered: done",
    "takeanumber DONE refused: ERR No such Id.",
    "takeanumber ECHO answered: facts",
    "takeanumber HELLO answered: facts",
    "takeanumber INFO answered: facts",
    "takeanumber LEN answered: a count",
    "takeanumber PING answered: facts",
    "takeanumber QUIT answered: done",
    "takeanumber RESERVE answered: a job",
    "takeanumber RESERVE answered: nothing",
    "takeanumber RESET answered: facts",
    "takeanumber RETRY answered: done",
    "takeanumber RETRY refused: ERR No retries remaining.",
    "takeanumber SELECT answered: facts",
    "workq add answered: put",
    "workq add refused: -CLIENT-ERROR Duplicate job",
    "workq add refused: -SERVER-ERROR Disk full",
    "workq add refused: -SERVER-ERROR Draining",
    "workq add refused: -SERVER-ERROR Out of memory",
    "workq add refused: -SERVER-ERROR Too many queues",
    "workq complete answered: done",
    "workq complete refused: -CLIENT-ERROR Duplicate result",
    "workq complete refused: -NOT-FOUND",
    "workq complete refused: -SERVER-ERROR Disk full",
    "workq delete answered: done",
    "workq delete refused: -NOT-FOUND",
    "workq fail answered: done",
    "workq fail refused: -CLIENT-ERROR Duplicate result",
    "workq fail refused: -NOT-FOUND",
    "workq fail refused: -SERVER-ERROR Disk full",
    "workq inspect job answered: a job's state",
    "workq inspect job answered: no such job",
    "workq inspect jobs answered: a list",
    "workq inspect jobs refused: -NOT-FOUND",
    "workq inspect queue answered: a count",
    "workq inspect queue refused: -NOT-FOUND",
    "workq inspect queues answered: done",
    "workq inspect queues answered: facts",
    "workq inspect scheduled-jobs answered: a list",
    "workq inspect scheduled-jobs refused: -NOT-FOUND",
    "workq inspect server answered: done",
    "workq inspect server answered: facts",
    "workq lease answered: a job",
    "workq lease answered: nothing",
    "workq lease refused: -SERVER-ERROR Disk full",
    "workq lease refused: -SERVER-ERROR Too many queues",
    "workq result answered: a failure",
    "workq result answered: a result",
    "workq result answered: nothing",
    "workq result refused: -NOT-FOUND",
    "workq run answered: a failure",
    "workq run answered: a result",
    "workq run answered: nothing",
    "workq run refused: -CLIENT-ERROR Duplicate job",
    "workq run refused: -NOT-FOUND",
    "workq run refused: -SERVER-ERROR Disk full",
    "workq run refused: -SERVER-ERROR Draining",
    "workq run refused: -SERVER-ERROR Too many queues",
    "workq schedule answered: put",
    "workq schedule refused: -CLIENT-ERROR Duplicate job",
    "workq schedule refused: -SERVER-ERROR Disk full",
    "workq schedule refused: -SERVER-ERROR Draining",
    "workq schedule refused: -SERVER-ERROR Out of memory",
    "workq schedule refused: -SERVER-ERROR Too many queues",
];

/// What is said to those whose connection the server ends by itself.
pub const FAREWELLS: &[&str] = &[
    "any cut off: ERR Too many clients.",
    "beanstalkd cut off: OUT_OF_MEMORY, for too many clients",
    "goqueue cut off: Too many clients",
    "goqueue cut off: Too much unfinished input",
    "jobcentre cut off: {\"status\":\"error\",\"error\":\"Too many clients.\"}",
    "jobcentre cut off: {\"status\":\"error\",\"error\":\"Too much unfinished input.\"}",
    "masenko cut off: ERR {\"msg\":\"no heartbeat\"}",
    "masenko cut off: ERR {\"msg\":\"too many clients\"}",
    "masenko cut off: ERR {\"msg\":\"too much unfinished input\"}",
    "takeanumber cut off: ERR Too many clients.",
    "takeanumber cut off: ERR Too much unfinished input.",
    "workq cut off: -SERVER-ERROR Too many clients",
    "workq cut off: -SERVER-ERROR Too much unfinished input",
];

/// Answers, refusals and checks that are right, and come only in very many schedules: less than five times in 1,000, or in
/// few of them often. Any other answer is wrong.
pub const SELDOM: &[&str] = &[
    "beanstalkd bury refused: OUT_OF_MEMORY",
    "beanstalkd cut off: OUT_OF_MEMORY, for too much input",
    "beanstalkd kick refused: OUT_OF_MEMORY",
    "beanstalkd kick-job refused: OUT_OF_MEMORY",
    "beanstalkd list-origins refused: OUT_OF_MEMORY",
    "beanstalkd list-tubes refused: OUT_OF_MEMORY",
    "beanstalkd peek-buried refused: OUT_OF_MEMORY",
    "beanstalkd peek-delayed refused: OUT_OF_MEMORY",
    "beanstalkd peek-ready refused: OUT_OF_MEMORY",
    "beanstalkd put refused for want of memory",
    "beanstalkd put-origin refused for want of memory",
    "beanstalkd release refused: OUT_OF_MEMORY",
    "beanstalkd reserve-job refused: OUT_OF_MEMORY",
    "beanstalkd use refused for want of memory",
    "beanstalkd watch refused for want of memory",
    "checked: a job is delayed, as is said",
    "goqueue RESERVE refused: The server's disk is full",
    "masenko ATOMIC refused: ERR {\"msg\":\"no room for another task\"}",
    "masenko INFO refused: ERR {\"msg\":\"no room for another task\"}",
    "masenko NACK refused: ERR {\"msg\":\"no room on the disk\"}",
    "takeanumber RESERVE refused: ERR Disk full.",
    "takeanumber RETRY refused: ERR Disk full.",
    "workq complete refused: -SERVER-ERROR Out of memory",
    "workq fail refused: -SERVER-ERROR Out of memory",
    "workq inspect jobs refused: -SERVER-ERROR Out of memory",
    "workq inspect queues refused: -SERVER-ERROR Out of memory",
    "workq inspect scheduled-jobs refused: -SERVER-ERROR Out of memory",
    "workq run refused: -SERVER-ERROR Out of memory",
    "workq schedule refused: -CLIENT-ERROR Invalid Time",
];

/// What was checked. What can become of a job is in the model's list of transitions.
pub const CHECKS: &[&str] = &[
    "audit: a group and what it completes",
    "audit: a group is not there",
    "audit: a group is there whole",
    "audit: a job came in the end",
    "audit: a job has expired",
    "audit: a job is gone rightly",
    "audit: a job is still put aside",
    "audit: a job is there rightly",
    "audit: a job was ready",
    "audit: a queue is counted rightly",
    "audit: all queues are listed rightly",
    "audit: all work again",
    "audit: the server says how it is",
    "audit: every number was exact",
    "audit: what is said of tubes adds up",
    "audit: what was done is counted rightly",
    "audit: a long log is no longer than it may be",
    "audit: a queue was emptied",
    "checked: a count can be right",
    "checked: a job came after its date",
    "checked: a job came after what blocks it",
    "checked: a job that had failed came when it may",
    "checked: a job was given as often as it may be",
    "checked: a job with a lifetime was not over",
    "checked: a lease was over before the next",
    "checked: a taken id was refused",
    "checked: an id was free again",
    "checked: of two under one id one was put",
    "checked: who had a job run gave up in time",
    "checked: what is unfinished may be so",
    "checked: who half-closes is answered",
    "checked: who waits at a stop is answered",
    "checked: someone waits rightly",
    "checked: someone was told of nothing rightly",
    "audit: a queue is listed rightly",
    "audit: a failure is there",
    "audit: a result is there",
    "checked: a job came in its order",
    "checked: a job is over, as was said",
    "checked: a list can be right",
    "checked: a queue came in its order",
    "checked: a job has failed as often as is said",
    "checked: nobody has what nobody heard of",
    "checked: nobody was passed over",
    "checked: someone gave that result",
    "checked: a job is as is said",
    "checked: a job is its holder's alone",
    "checked: a job is buried, as is said",
    "checked: a job is ready, as is said",
    "checked: a job is reserved, as is said",
    "checked: a job could not be let back in",
    "checked: a kick took some of those put aside and left others",
    "checked: as many were let back in as must be",
    "checked: of what could be let back in only so much was",
    "checked: so many are watched as is said",
    "beanstalkd put refused for want of room on the disk",
    "beanstalkd put-origin refused for want of room on the disk",
    "beanstalkd reserve refused for want of leave to hold a job more",
    "beanstalkd reserve-with-timeout refused for want of leave to hold a job more",
    "beanstalkd use refused for want of room for a queue",
    "beanstalkd watch refused for want of room for a queue",
    "checked: a tube's figures can be right",
    "checked: the job was shown that falls due first",
    "checked: the job was shown that is taken first",
    "checked: the job was shown that was put aside first",
    "checked: the server's figures can be right",
    "checked: what was put aside is let back in before what is delayed",
    "checked: a job that was put back came when it may",
    "checked: a job came when a pause was over",
    "checked: a job of a paused queue was taken by its number",
    "checked: a job was let back in",
    "checked: a job was taken by its number",
    "checked: a queue is paused as is said",
    "checked: nobody is given a job of a paused queue",
    "audit: nobody is given a job of a paused queue",
    "checked: a job's time was nearly over",
    "checked: jobs were let back in",
    "checked: a connection has its number",
    "checked: no more clients are there than came",
    "checked: no job's time is nearly over",
    "checked: one attends what it said",
    "checked: queues are listed rightly",
    "checked: an origin is still open, or closed",
    "checked: an origin was open or closed",
    "checked: origins are listed rightly",
    "checked: origins behind one are listed rightly",
    "checked: a job that was put aside elsewhere is so",
    "checked: what was put aside is counted rightly",
    "checked: full memory",
    "checked: what was refused could be",
    "checked: of too many clients some are not told",
    "checked: there was room for a client",
    "found out: it is not there",
    "found out: it is there",
    "jobs end asked",
    "jobs ended",
    "jobs never told",
    "jobs refused",
    "jobs there",
];

/// Records of every kind.
pub fn record_kinds() -> impl Iterator<Item = String> {
    RECORD_KINDS.iter().map(|kind| format!("record {kind}"))
}

/// What is said to nonsense, and to blunders.
pub fn nonsense_answers() -> impl Iterator<Item = String> {
    let of_speaker = |speaker: &'static Speaker| {
        let nonsense = speaker.nonsense.iter().map(|(_, told)| answer(speaker, "nonsense", told));
        nonsense.chain(speaker.blunders.iter().map(|(_, told)| answer(speaker, "blunder", told)))
    };
    SPEAKERS.iter().flat_map(of_speaker)
}

fn answer(speaker: &Speaker, to: &str, told: &str) -> String {
    format!("{} {to} refused: {}", speaker.protocol, words_of(told))
}

/// Whether this answer may ever come to this question. What is nonsense may also be refused as anything else is.
pub fn is_right_at_all(speaker: &Speaker, ask: &Ask, said: &str) -> bool {
    if let Ask::Blunder(kind) = ask {
        return said == answer(speaker, "blunder", speaker.blunders[kind % speaker.blunders.len()].1);
    }
    let Ask::Nonsense(kind) = ask else {
        return ANSWERS.binary_search(&said).is_ok() || SELDOM.binary_search(&said).is_ok();
    };
    let is_not_found = |general: &str| general.ends_with("-NOT-FOUND") || general.ends_with(" NOT_FOUND");
    let is_general = |general: &&&str| general.starts_with(speaker.protocol) && !is_not_found(general);
    let mut refusals = ANSWERS.iter().filter(is_general).filter_map(|known| known.split_once(" refused: "));
    let told = speaker.nonsense[kind % speaker.nonsense.len()].1;
    said == answer(speaker, "nonsense", told)
        || said.split_once(" refused: ").is_some_and(|(_, words)| refusals.any(|(_, known)| known == words))
}

/// A refusal in short, without its end.
pub fn words_of(words: &str) -> String {
    in_short(words).trim_end().to_owned()
}

/// What is said, with 0 for each number.
pub fn in_short(words: &str) -> String {
    let mut short: String = words.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    while short.contains("00") {
        short = short.replace("00", "0");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::super::texts::refusal;
    use super::*;
    use crate::clients::speaker;

    #[test]
    fn answers_are_in_order_and_in_one_list() {
        assert!(ANSWERS.is_sorted() && SELDOM.is_sorted());
        assert!(ANSWERS.iter().all(|said| SELDOM.binary_search(said).is_err()));
        let is_right = |protocol, ask, said| is_right_at_all(speaker(protocol, false), &ask, said);
        assert!(is_right("goqueue", Ask::Count("a"), ANSWERS[0]) && is_right("goqueue", Ask::Count("a"), SELDOM[0]));
        assert!(!is_right("workq", Ask::Count("a"), "workq add answered: no"));
        assert!(is_right("goqueue", Ask::Nonsense(0), "goqueue nonsense refused: Unknown Command FOO"));
        assert!(is_right("goqueue", Ask::Nonsense(0), "goqueue nonsense refused: The server's disk is full"));
        assert!(!is_right("goqueue", Ask::Nonsense(1), "goqueue nonsense refused: Unknown Command FOO"));
        assert!(!is_right("goqueue", Ask::Nonsense(0), "goqueue nonsense refused: -NOT-FOUND"));
    }

    /// What needs a line of many megabytes, a limit that no schedule has, or a job that none puts: transcripts hear it, schedules
    /// do not.
    const IN_TRANSCRIPTS: &[(&str, &[&str])] = &[
        ("goqueue", &["Queue name is longer than", "Command is longer than", "The queue's name is too long"]),
        ("takeanumber", &["ERR Body cannot be sent in a line.", "ERR Line is longer than", "ERR Queue name too long."]),
        (
            "masenko",
            &[
                "at most 255 blocked by task IDs can be provided",
                "payload is longer than",
                "timeout must be smaller than the heartbeat frequency",
                "transaction has more than",
                "transaction has payloads of more than",
                "line is longer than",
                "queues can be fetched from",
                "queue name longer than 5 bytes",
            ],
        ),
        (
            "jobcentre",
            &[
                "Field job is longer than",
                "Field queues names more than",
                "Request is longer than",
                "Field queue is longer than 5 bytes.",
            ],
        ),
        ("workq", &["Too many names", "Line too long"]),
        ("beanstalkd", &["JOB_TOO_BIG"]),
    ];

    #[test]
    fn every_refusal_comes_in_schedules_or_is_known_not_to() {
        let known = ANSWERS.iter().chain(SELDOM).chain(FAREWELLS).map(|said| (*said).to_owned());
        let known: Vec<String> = known.chain(nonsense_answers()).collect();
        for (protocol, elsewhere) in IN_TRANSCRIPTS {
            let texts = format!("{}/../../transcripts/{protocol}/texts.txt", env!("CARGO_MANIFEST_DIR"));
            let texts = std::fs::read_to_string(texts).expect("there is a list of texts");
            let refusals: Vec<&str> = texts.lines().filter_map(|line| refusal(protocol, line)).collect();
            assert!(refusals.len() > 5, "{protocol}");
            for words in refusals.iter().filter(|words| !elsewhere.iter().any(|text| words.contains(text))) {
                let short = words_of(&words.replace("\\\\", "\\"));
                let says = |said: &str| {
                    let words = said.split_once(" refused: ").or(said.split_once(" cut off: "));
                    said.starts_with(protocol) && words.is_some_and(|(_, words)| words.starts_with(&short))
                };
                let comes = known.iter().any(|said| says(said));
                assert!(comes, "{protocol} can say '{short}', and no schedule hears it");
            }
            for text in *elsewhere {
                assert!(refusals.iter().any(|words| words.contains(text)), "{protocol} does not say '{text}'");
            }
        }
        assert_eq!(IN_TRANSCRIPTS.len(), SPEAKERS.len());
    }
}
