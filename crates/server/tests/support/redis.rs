//! Redis, to compare with.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use super::{Running, until};

/// Redis itself, running.
pub struct Redis {
    _running: Running,
    pub place: SocketAddr,
}

impl Redis {
    pub fn start() -> Redis {
        // It cannot say which port it has; whoever had this one has given it back.
        let place = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &place.port().to_string(), "--save", ""]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("redis-server is missing: on Debian, apt-get install redis-server");
        let mut running = Running::new(child);
        until("redis listens", || {
            running.poll();
            assert!(running.status.is_none(), "redis ended: {:?}", running.status);
            TcpStream::connect(place).is_ok()
        });
        Redis { _running: running, place }
    }
}
