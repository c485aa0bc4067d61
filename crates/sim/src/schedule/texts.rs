//! What each protocol can say, besides refusals: the lists that transcripts are held to, heard in schedules too.

use std::collections::BTreeMap;

use super::Schedule;
use super::expected::in_short;
use crate::transcript::unescape;

/// The lists, by protocol.
const LISTS: &[(&str, &str)] = &[
    ("goqueue", include_str!("../../../../transcripts/goqueue/texts.txt")),
    ("takeanumber", include_str!("../../../../transcripts/takeanumber/texts.txt")),
    ("masenko", include_str!("../../../../transcripts/masenko/texts.txt")),
    ("jobcentre", include_str!("../../../../transcripts/jobcentre/texts.txt")),
    ("workq", include_str!("../../../../transcripts/workq/texts.txt")),
    ("beanstalkd", include_str!("../../../../transcripts/beanstalkd/texts.txt")),
];

/// What no schedule hears, and why.
const NOT_HEARD: &[(&str, &str, &str)] = &[
    (
        "takeanumber",
        r"$47\r\n6a6f6279-6172-4640-8000-000000000002 two\r\nlines\r\n",
        "no body of ours holds the end of a line",
    ),
    ("workq", r"name ping\r\n", "no queue of ours is called so"),
    ("workq", r"payload pong\r\n", "no body of ours is that"),
    ("beanstalkd", r#"tube: "default"\n"#, "nobody puts a job into that tube"),
];

/// What beanstalkd says to refuse something.
const BEANSTALKD_REFUSALS: [&str; 11] = [
    "BAD_FORMAT",
    "DRAINING",
    "EXPECTED_CRLF",
    "JOB_TOO_BIG",
    "NOT_CLAIMED",
    "NOT_FOUND",
    "NOT_IGNORED",
    "OPEN",
    "OUT_OF_MEMORY",
    "TAKEN",
    "UNKNOWN_COMMAND",
];

/// The words of a line of such a list, if it is a refusal.
pub fn refusal<'a>(protocol: &str, line: &'a str) -> Option<&'a str> {
    let fixed = line.trim_end_matches("\\r\\n").trim_end_matches("\\0");
    match protocol {
        "goqueue" => fixed.strip_prefix("ERROR\\0").filter(|words| !words.is_empty()),
        "takeanumber" => fixed.strip_prefix('-').filter(|words| *words != "ERR No items available to reserve."),
        "masenko" => fixed.starts_with("ERR ").then_some(fixed),
        "jobcentre" => fixed.starts_with("{\"status\":\"error\"").then_some(fixed),
        "beanstalkd" => BEANSTALKD_REFUSALS.contains(&fixed).then_some(fixed),
        _ => (fixed.starts_with('-') && fixed != "-TIMEOUT").then_some(fixed),
    }
}

/// A text as it is listed, and in short: numbers are written as 0.
type Text = (&'static str, String);

/// What can be said and is no refusal, as it is listed.
fn listed(protocol: &str) -> impl Iterator<Item = &'static str> {
    let lists = LISTS.iter().filter(move |(of, _)| *of == protocol);
    let lines = lists.flat_map(|(_, list)| list.lines()).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let protocol = protocol.to_owned();
    lines.filter(move |line| refusal(&protocol, line).is_none())
}

/// What must be heard in many schedules.
pub fn texts_demanded() -> impl Iterator<Item = String> {
    let is_heard = |protocol: &str, line: &str| !NOT_HEARD.iter().any(|(of, text, _)| *of == protocol && *text == line);
    LISTS.iter().flat_map(move |(protocol, _)| {
        listed(protocol).filter(move |line| is_heard(protocol, line)).map(move |line| name_of(protocol, line))
    })
}

fn name_of(protocol: &str, line: &str) -> String {
    format!("text {protocol}: {line}")
}

/// What was not heard yet in a schedule, by protocol.
pub struct Texts(BTreeMap<&'static str, Vec<Text>>);

impl Texts {
    pub fn new() -> Self {
        let text = |line: &'static str| {
            let text = unescape(line).expect("the list can be read");
            (line, in_short(&String::from_utf8_lossy(&text)))
        };
        Texts(LISTS.iter().map(|(protocol, _)| (*protocol, listed(protocol).map(text).collect())).collect())
    }
}

impl Schedule {
    /// Someone has heard this.
    pub(super) fn note_texts(&mut self, protocol: &str, answer: &[u8]) {
        let Some(texts) = self.texts.0.get_mut(protocol) else { return };
        let answer = in_short(&String::from_utf8_lossy(answer));
        let heard: Vec<Text> = texts.extract_if(.., |(_, text)| answer.contains(text.as_str())).collect();
        for (line, _) in heard {
            self.count(&name_of(protocol, line), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::SPEAKERS;

    #[test]
    fn every_protocol_has_its_list_and_what_is_left_out_is_in_it() {
        for speaker in SPEAKERS {
            let count = listed(speaker.protocol).count();
            assert!(count > 3, "{} can say {count} things", speaker.protocol);
        }
        assert_eq!(LISTS.len(), SPEAKERS.len());
        for (protocol, text, _) in NOT_HEARD {
            assert!(listed(protocol).any(|line| line == *text), "{protocol} does not say {text}");
            assert!(!texts_demanded().any(|name| name == name_of(protocol, text)));
        }
        assert!(texts_demanded().any(|name| name == "text beanstalkd: PAUSED\\r\\n"));
    }
}
