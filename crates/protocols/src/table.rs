//! The table of protocols. Addresses, their options and detection on an `any` port follow from its
//! rows, and tests ask for transcripts of each.

use jobyard_engine::Now;

use crate::codec::Codec;
use crate::guard::Guard;
use crate::options::Options;
use crate::{any, beanstalkd, goqueue, http, jobcentre, masenko, takeanumber, workq};

/// One protocol.
#[derive(Debug)]
pub struct Protocol {
    /// What it is called in an address: `workq://…`.
    pub name: &'static str,
    /// The port on which its original server listens, if it has one.
    pub port: Option<u16>,
    /// The options it knows.
    pub options: &'static [&'static str],
    /// What ends its lines, if it has lines: so that transcripts need not spell it.
    pub line_end: &'static str,
    /// Whether a connection's first bytes are this protocol's. Blanks have been passed over.
    pub begins: fn(&[u8]) -> Begins,
    open: fn(&Options, Now) -> Box<dyn Codec>,
}

/// Whether some bytes begin a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// They do.
    Yes,
    /// They may, with more to follow.
    Maybe,
    /// They cannot.
    No,
}

/// Every protocol the server speaks.
pub const PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "goqueue",
        port: Some(11223),
        options: &[],
        line_end: "",
        begins: goqueue::begins,
        open: |_, _| Box::new(Guard::new(goqueue::Goqueue::default())),
    },
    Protocol {
        name: "takeanumber",
        port: Some(13331),
        options: &["dialect", "lease"],
        line_end: "\r\n",
        begins: takeanumber::begins,
        open: |options, _| Box::new(Guard::new(takeanumber::Takeanumber::new(options))),
    },
    Protocol {
        name: "masenko",
        port: Some(12345),
        options: &["dialect", "heartbeat"],
        line_end: "\n",
        begins: masenko::begins,
        open: |options, now| Box::new(Guard::new(masenko::Masenko::new(options, now))),
    },
    Protocol {
        name: "jobcentre",
        port: None,
        options: &[],
        line_end: "\n",
        begins: jobcentre::begins,
        open: |_, _| Box::new(Guard::new(jobcentre::Jobcentre::default())),
    },
    Protocol {
        name: "workq",
        port: Some(9922),
        options: &["dialect"],
        line_end: "\r\n",
        begins: workq::begins,
        open: |options, _| Box::new(Guard::new(workq::Workq::new(options))),
    },
    Protocol {
        name: "beanstalkd",
        port: Some(11300),
        options: &[],
        line_end: "\r\n",
        begins: beanstalkd::begins,
        open: |_, _| Box::new(Guard::new(beanstalkd::Beanstalkd::default())),
    },
    Protocol {
        name: HTTP,
        port: None,
        options: &[],
        line_end: "",
        begins: http::begins,
        open: |_, _| Box::new(http::Http::default()),
    },
];

/// What answers `GET /healthz`.
const HTTP: &str = "http";

/// The port that speaks whichever of them its client speaks.
pub const ANY: &str = "any";

/// A protocol by name, with the options its listener may have; `any` is one too.
#[must_use]
pub fn find(name: &str) -> Option<Listener> {
    if name == ANY {
        return Some(Listener::Any);
    }
    PROTOCOLS.iter().find(|protocol| protocol.name == name).map(Listener::One)
}

/// What a listener speaks.
#[derive(Clone, Copy, Debug)]
pub enum Listener {
    /// One protocol.
    One(&'static Protocol),
    /// Whichever its client speaks.
    Any,
}

impl Listener {
    /// Whether whoever connects may ask for the server's health.
    #[must_use]
    pub fn answers_health(self) -> bool {
        match self {
            Listener::One(protocol) => protocol.name == HTTP,
            Listener::Any => true,
        }
    }

    /// The names of the options that such a listener may have.
    #[must_use]
    pub fn options(self) -> Vec<&'static str> {
        match self {
            Listener::One(protocol) => protocol.options.to_vec(),
            Listener::Any => {
                let mut names: Vec<_> = PROTOCOLS.iter().flat_map(|protocol| protocol.options).copied().collect();
                names.sort_unstable();
                names.dedup();
                names
            }
        }
    }

    /// What it is called in an address.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Listener::One(protocol) => protocol.name,
            Listener::Any => ANY,
        }
    }

    /// What ends the lines that are spoken here, if it is known.
    #[must_use]
    pub fn line_end(self) -> &'static str {
        match self {
            Listener::One(protocol) => protocol.line_end,
            Listener::Any => "",
        }
    }

    /// A new connection's codec.
    #[must_use]
    pub fn open(self, options: &Options, now: Now) -> Box<dyn Codec> {
        match self {
            Listener::One(protocol) => (protocol.open)(options, now),
            Listener::Any => Box::new(any::Any::new(options)),
        }
    }
}

impl Protocol {
    /// A new connection's codec, as the `any` port opens it.
    pub(crate) fn open(&self, options: &Options, now: Now) -> Box<dyn Codec> {
        (self.open)(options, now)
    }
}
