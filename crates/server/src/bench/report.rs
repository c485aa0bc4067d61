//! What was measured, as a small table or as a line of JSON.

use std::net::SocketAddr;

use super::load::Measured;

/// All that is said of a run.
#[derive(Debug)]
pub struct Report<'a> {
    /// What was spoken.
    pub protocol: &'a str,
    /// What was done with jobs.
    pub workload: &'a str,
    /// Where the server is.
    pub place: SocketAddr,
    /// The name of the first queue.
    pub queue: &'a str,
    /// How many connections.
    pub connections: u32,
    /// Requests in flight on each.
    pub depth: u32,
    /// Bytes of a body.
    pub body: u32,
    /// How many queues.
    pub queues: u32,
    /// How many priorities jobs had.
    pub priorities: u32,
    /// Jobs that waited in them all the while.
    pub backlog: u64,
    /// What came of it.
    pub measured: &'a Measured,
}

impl Report<'_> {
    /// Two lines: names and figures.
    pub fn table(&self) -> String {
        let Report { protocol, workload, connections, depth, body, measured, .. } = self;
        let Measured { requests, seconds, .. } = measured;
        let columns = [
            ("protocol", (*protocol).to_owned()),
            ("workload", (*workload).to_owned()),
            ("connections", connections.to_string()),
            ("depth", depth.to_string()),
            ("body", format!("{body} B")),
            ("requests", requests.to_string()),
            ("seconds", format!("{seconds:.2}")),
            ("requests/s", format!("{:.0}", self.requests_per_second())),
            ("cycles/s", format!("{:.0}", self.cycles_per_second())),
            ("p50", time(self.micros_at(0.5))),
            ("p99", time(self.micros_at(0.99))),
            ("p99.9", time(self.micros_at(0.999))),
            ("generator", format!("{:.2} µs/request", self.generator_micros())),
        ];
        let [mut names, mut figures] = [String::new(), String::new()];
        for (name, figure) in columns {
            let width = name.chars().count().max(figure.chars().count());
            let gap = if names.is_empty() { "" } else { "  " };
            names.push_str(&format!("{gap}{name:>width$}"));
            figures.push_str(&format!("{gap}{figure:>width$}"));
        }
        format!("{names}\n{figures}\n")
    }

    /// One line for programs. None of its texts has a letter that JSON would want escaped.
    pub fn json(&self) -> String {
        let Report {
            protocol,
            workload,
            place,
            queue,
            connections,
            depth,
            body,
            queues,
            priorities,
            backlog,
            measured,
        } = self;
        let Measured { requests, cycles, seconds, .. } = measured;
        let fields = [
            format!(
                "\"protocol\":\"{protocol}\",\"workload\":\"{workload}\",\"place\":\"{place}\",\"queue\":\"{queue}\",\"queues\":{queues}"
            ),
            format!("\"connections\":{connections},\"depth\":{depth},\"body_bytes\":{body},\"backlog\":{backlog}"),
            format!("\"priorities\":{priorities}"),
            format!("\"requests\":{requests},\"cycles\":{cycles},\"seconds\":{seconds:.6}"),
            format!("\"requests_per_second\":{:.1}", self.requests_per_second()),
            format!("\"cycles_per_second\":{:.1}", self.cycles_per_second()),
            format!("\"p50_us\":{:.1},\"p99_us\":{:.1}", self.micros_at(0.5), self.micros_at(0.99)),
            format!("\"p99_9_us\":{:.1}", self.micros_at(0.999)),
            format!("\"generator_us_per_request\":{:.3}", self.generator_micros()),
        ];
        format!("{{{}}}\n", fields.join(","))
    }

    fn requests_per_second(&self) -> f64 {
        self.measured.requests as f64 / self.measured.seconds
    }

    fn cycles_per_second(&self) -> f64 {
        self.measured.cycles as f64 / self.measured.seconds
    }

    fn micros_at(&self, share: f64) -> f64 {
        self.measured.latencies.quantile(share) as f64 / 1e3
    }

    /// What the generator took of a processor for a request; 0 if none was answered.
    fn generator_micros(&self) -> f64 {
        self.measured.generator_seconds * 1e6 / self.measured.requests.max(1) as f64
    }
}

fn time(micros: f64) -> String {
    if micros < 1e3 { format!("{micros:.0} µs") } else { format!("{:.2} ms", micros / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::latency::Latencies;

    fn measured() -> Measured {
        let mut latencies = Latencies::new();
        for nanos in [20_000, 20_000, 3_000_000] {
            latencies.record(nanos);
        }
        Measured { requests: 3_000, cycles: 1_000, seconds: 0.5, generator_seconds: 0.003, latencies }
    }

    fn report(measured: &Measured) -> Report<'_> {
        let place = "127.0.0.1:9922".parse().unwrap();
        Report {
            protocol: "workq",
            workload: "cycle",
            place,
            queue: "q",
            connections: 3,
            depth: 8,
            body: 64,
            queues: 1,
            priorities: 1,
            backlog: 9,
            measured,
        }
    }

    #[test]
    fn the_table_has_its_figures_under_their_names() {
        assert_eq!(
            report(&measured()).table(),
            "\
protocol  workload  connections  depth  body  requests  seconds  requests/s  cycles/s    p50      p99    p99.9        generator
   workq     cycle            3      8  64 B      3000     0.50        6000      2000  20 µs  3.01 ms  3.01 ms  1.00 µs/request
"
        );
    }

    #[test]
    fn the_line_of_json_says_it_all() {
        let line = report(&measured()).json();
        for field in [
            "{\"protocol\":\"workq\",\"workload\":\"cycle\",\"place\":\"127.0.0.1:9922\",\"queue\":\"q\",\"queues\":1,",
            "\"connections\":3,\"depth\":8,\"body_bytes\":64,\"backlog\":9,\"priorities\":1,",
            "\"p99_9_us\":30",
            "\"requests\":3000,\"cycles\":1000,\"seconds\":0.500000,",
            "\"requests_per_second\":6000.0,\"cycles_per_second\":2000.0,",
            "\"generator_us_per_request\":1.000}\n",
        ] {
            assert!(line.contains(field), "{field} is not in {line}");
        }
    }

    #[test]
    fn a_run_without_an_answer_divides_by_nothing() {
        let measured = Measured { requests: 0, cycles: 0, latencies: Latencies::new(), ..measured() };
        assert!(!report(&measured).json().contains("inf") && !report(&measured).table().contains("inf"));
    }
}
