//! A proxy before a PostgreSQL server that cuts connections at `COMMIT`, as a network does that fails at the worst
//! instant.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::Dice;

/// How a connection ends at a `COMMIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The server never hears of it.
    Before,
    /// The server has it, and nobody waits for what it does.
    Amid,
    /// The server has done it, and its answer is lost.
    After,
}

/// The proxy; it and all its connections end with this value.
pub struct Severed {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    server: String,
    dice: std::sync::Mutex<Dice>,
    /// Cut one `COMMIT` of so many; 0: none.
    one_in: AtomicUsize,
    cuts: AtomicUsize,
}

impl Severed {
    /// Listens on a free port of 127.0.0.1 before the server of `url`, and cuts nothing yet; and the URL that leads
    /// through it.
    ///
    /// # Panics
    /// Without a port; if `url` has no host.
    pub async fn start(url: &str, seed: u64) -> (Self, String) {
        let (before, rest) = url.split_once('@').expect("a URL with a user");
        let (server, database) = rest.split_once('/').expect("a URL with a database");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            server: server.to_owned(),
            dice: std::sync::Mutex::new(Dice::new(seed)),
            one_in: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
        });
        let ours = shared.clone();
        let serving = tokio::spawn(async move {
            // Dropped, and so ended, with this task.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(ours.clone().serve(client));
            }
        });
        (Self { address, shared, serving }, format!("{before}@{address}/{database}"))
    }

    /// From now on cuts one `COMMIT` of so many, at random; 0: none.
    pub fn cut_one_in(&self, n: usize) {
        self.shared.one_in.store(n, Ordering::Relaxed);
    }

    /// How many were cut.
    pub fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::Relaxed)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Severed {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn roll(&self) -> Option<Cut> {
        let n = self.one_in.load(Ordering::Relaxed);
        if n == 0 {
            return None;
        }
        let mut dice = self.dice.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !dice.one_in(n as u64) {
            return None;
        }
        self.cuts.fetch_add(1, Ordering::Relaxed);
        Some([Cut::Before, Cut::Amid, Cut::After][dice.within(0, 3) as usize])
    }

    async fn serve(self: Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(&self.server).await else { return };
        // Whole messages are passed on at once.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let mute = Arc::new(AtomicBool::new(false));
        // Either side's end is the other's: dropping the halves closes the sockets.
        tokio::select! {
            _ = self.requests(from_client, to_server, &mute) => {}
            () = answers(from_server, to_client, &mute) => {}
        }
    }

    /// Passes on what the client sends, message by message
    /// (<https://www.postgresql.org/docs/15/protocol-message-formats.html>).
    async fn requests(
        &self,
        mut client: impl AsyncRead + Unpin,
        mut server: impl AsyncWrite + Unpin,
        mute: &AtomicBool,
    ) -> std::io::Result<()> {
        // Until the start there are messages without a type: a question for TLS, to which this server says no, and the
        // start itself, whose first number is the version 3.0.
        loop {
            let length = client.read_u32().await?;
            let mut body = vec![0; length.saturating_sub(4) as usize];
            client.read_exact(&mut body).await?;
            server.write_all(&[&length.to_be_bytes()[..], &body].concat()).await?;
            if body.starts_with(&[0, 3]) {
                break;
            }
        }
        loop {
            let kind = client.read_u8().await?;
            let length = client.read_u32().await?;
            let mut body = vec![0; length.saturating_sub(4) as usize];
            client.read_exact(&mut body).await?;
            let cut = (kind == b'Q' && body == b"COMMIT\0").then(|| self.roll()).flatten();
            if cut == Some(Cut::Before) {
                return Ok(());
            }
            mute.store(cut.is_some(), Ordering::SeqCst);
            server.write_all(&[&[kind][..], &length.to_be_bytes(), &body].concat()).await?;
            if cut.is_some() {
                // The bytes are on their way to the server; dropping its end in order lets it read them.
                server.flush().await?;
                if cut == Some(Cut::After) {
                    // The other half of the connection waits for the answer; this one must stay open until then.
                    std::future::pending::<()>().await;
                }
                return Ok(());
            }
        }
    }
}

/// Passes on what the server answers; ends with the first answer that is to be lost.
async fn answers(mut server: impl AsyncRead + Unpin, mut client: impl AsyncWrite + Unpin, mute: &AtomicBool) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(n) = server.read(&mut bytes).await
        && n > 0
        && !mute.load(Ordering::SeqCst)
        && client.write_all(&bytes[..n]).await.is_ok()
    {}
}
