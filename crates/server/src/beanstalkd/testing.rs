//! Binlogs as beanstalkd 1.12 would write them, for tests.

/// When every job of them was put: 2026-01-01T00:00:00Z.
pub const CREATED_MS: u64 = 1_767_225_600_000;

/// A file that is being written.
pub struct Written {
    pub bytes: Vec<u8>,
    /// Where each write of beanstalkd's ends: a length, a name, what is known of a job, a body.
    pub writes: Vec<usize>,
}

impl Written {
    pub fn new() -> Written {
        Written { bytes: vec![7, 0, 0, 0], writes: vec![4] }
    }

    /// A job is put; it is ready.
    pub fn put(&mut self, id: u64, tube: &str, priority: u32, body: &[u8]) {
        self.length(tube.len());
        self.bytes.extend_from_slice(tube.as_bytes());
        self.end_write();
        self.fixed(id, priority, 1, body.len(), 0);
        self.bytes.extend_from_slice(body);
        self.bytes.extend_from_slice(b"\r\n");
        self.end_write();
    }

    /// A job with so long a body is in another state.
    pub fn change(&mut self, id: u64, state: u8, body_bytes: usize) {
        self.length(0);
        self.fixed(id, 7, state, body_bytes, 0);
    }

    /// A job is released for so long after it was put.
    pub fn delay(&mut self, id: u64, delay_ms: u64, body_bytes: usize) {
        self.length(0);
        self.fixed(id, 7, 4, body_bytes, delay_ms);
    }

    fn length(&mut self, bytes: usize) {
        self.bytes.extend(u32::try_from(bytes).unwrap().to_le_bytes());
        self.end_write();
    }

    fn end_write(&mut self) {
        self.writes.push(self.bytes.len());
    }

    fn fixed(&mut self, id: u64, priority: u32, state: u8, body_bytes: usize, delay_ms: u64) {
        let nanos = |ms: u64| ms * 1_000_000;
        let body_size = u64::try_from(body_bytes + 2).unwrap();
        let deadline = if state == 4 { nanos(CREATED_MS + delay_ms) } else { 0 };
        for number in [id, priority.into(), nanos(delay_ms), nanos(60_000), body_size, nanos(CREATED_MS), deadline] {
            self.bytes.extend(number.to_le_bytes());
        }
        // Five counters, the state and the padding.
        self.bytes.extend([0; 20]);
        self.bytes.extend([state, 0, 0, 0]);
        self.end_write();
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
