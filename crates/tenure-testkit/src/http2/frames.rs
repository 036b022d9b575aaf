//! Frames of HTTP/2, byte by byte.

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a frame is.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they are called as in RFC 9113")]
pub enum Kind {
    Data,
    Headers,
    Priority,
    Reset,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    Unknown,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Data,
        Self::Headers,
        Self::Priority,
        Self::Reset,
        Self::Settings,
        Self::PushPromise,
        Self::Ping,
        Self::GoAway,
        Self::WindowUpdate,
        Self::Continuation,
        Self::Unknown,
    ];
}

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Frames, to be sent together.
#[derive(Clone, Debug, Default)]
pub struct Frames(Vec<u8>);

impl Frames {
    /// With what a connection begins with.
    #[must_use]
    pub fn of_new_connection() -> Self {
        let mut frames = Self(PREFACE.to_vec());
        frames.push(Kind::Settings, 0, 0, &[]);
        frames
    }

    /// One more.
    pub fn push(&mut self, kind: Kind, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        self.0.extend_from_slice(&length[1..]);
        self.0.extend_from_slice(&[kind as u8, flags]);
        self.0.extend_from_slice(&stream.to_be_bytes());
        self.0.extend_from_slice(payload);
    }

    /// A call of the service.
    pub fn call(&mut self, stream: u32, call: &str, token: &str, body: &str) {
        // Methods and schemes have a number, everything else is spelled out.
        let mut head = vec![0x83, 0x87];
        let mut field = |begin: &[u8], value: &str| {
            head.extend_from_slice(begin);
            // The first seven bits, and the rest if that is not enough.
            match value.len().checked_sub(0x7f) {
                None => head.push(u8::try_from(value.len()).unwrap()),
                Some(rest) => head.extend_from_slice(&[0x7f, u8::try_from(rest).unwrap()]),
            }
            head.extend_from_slice(value.as_bytes());
        };
        field(&[0x01], "127.0.0.1");
        field(&[0x04], &format!("/v1/{call}"));
        field(b"\x00\x0dauthorization", &format!("Bearer {token}"));
        field(b"\x00\x0ccontent-type", "application/json");
        self.push(Kind::Headers, END_HEADERS, stream, &head);
        self.push(Kind::Data, END_STREAM, stream, body.as_bytes());
    }

    /// Takes a call back.
    pub fn reset(&mut self, stream: u32) {
        const CANCEL: [u8; 4] = [0, 0, 0, 8];
        self.push(Kind::Reset, 0, stream, &CANCEL);
    }

    /// As they are sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
