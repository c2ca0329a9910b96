//! Every maximum of Korvun in one value, each with its unit and its reason. It enters by value, so
//! that tests can shrink what would take hours to reach.

use std::time::Duration;

/// All bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    // Messages
    /// Messages of one conversation waiting behind the one in work; more get the busy sentence (contract 3).
    pub waiting_per_conversation: u32,
    /// Unfinished inbox rows; beyond it channels hold back (contract 3).
    pub inbox_rows: u32,
    /// Undelivered outbox rows; beyond it channels hold back as with a full inbox, so that a
    /// receiver that is away for long fills no disk.
    pub outbox_rows: u32,
    /// Undelivered outbox rows of one conversation, beyond which it takes no more: one chat that
    /// cannot be written to for hours leaves room for all the others.
    pub outbox_per_conversation: u32,
    /// Bytes of one message's text (contract 3).
    pub text_bytes: usize,
    /// Attempts at one message before it is set aside (contract 3).
    pub attempts: u32,
    /// How long finished inbox and outbox rows stay (contract 8).
    pub finished_rows_kept: Duration,
    /// How long a repeated key is recognised (contract 4).
    pub dedup_window: Duration,
    /// How long a delivery is retried (contract 4).
    pub delivery_window: Duration,
    /// The wait before the second try of one delivery: most faults of a peer are over in a moment.
    pub delivery_backoff_first: Duration,
    /// The longest wait between two tries of one delivery: an hour's outage heals within minutes.
    pub delivery_backoff_most: Duration,
    /// Outbox rows held in memory as a schedule; more stay in the store until there is room.
    pub delivery_scheduled: usize,
    /// Delivery threads of one channel, started on demand: a slow delivery holds only its own conversation.
    pub senders: usize,

    // Store
    /// Writes waiting for the store thread; callers wait for room beyond it, which is back pressure.
    pub store_queue: usize,
    /// Writes taken into one commit: bounds how long the first of a group waits.
    pub store_group: usize,
    /// How long a "sent" mark may wait for company before it is committed alone.
    pub store_lazy: Duration,
    /// Read-only connections to the database: pages and runs seldom read more at once.
    pub store_readers: usize,
    /// Bytes free on the store's disk below which `/readyz` warns: room for a day of messages and for clearing up.
    pub disk_free_least: u64,
    /// How long a caller waits for the store before it is told that the store hangs.
    pub store_wait: Duration,
    /// Finished messages kept whole without storage, for those who repeat a key or ask by id.
    pub memory_messages: usize,
    /// How long the audit of tool calls is kept (contract 6).
    pub audit_kept: Duration,
    /// Finished messages whose keys are kept without storage: some hundred bytes each.
    pub memory_keys: usize,

    // Runs
    /// Threads that work on messages: a Pi has four cores and models do the work, but each waiting call holds one.
    pub run_threads: usize,
    /// How long an idle run thread stays: chats come in bursts.
    pub run_thread_idle: Duration,
    /// How long after its last release an endpoint counts as moving: for so long a place there is held for one who waits for several.
    pub place_moving: Duration,
    /// How long the threads of models that lost are waited for (contract 5).
    pub straggler_wait: Duration,
    /// Calls in one reply of a model that are looked at: those beyond `calls_per_reply` are denied one by one, and a flood of them is cut here.
    pub calls_read: usize,
    /// Calls in one reply of a model that are made (contract 5).
    pub calls_per_reply: usize,
    /// Bytes of what a model is told of one call: about two thousand tokens, half of a small context.
    pub observation_bytes: usize,
    /// How long runs may go on after a stop was asked for (contract 8).
    pub stop_runs: Duration,
    /// How long runs that were cut may take to give their messages back: a moment, unless a name look-up hangs.
    pub stop_cut: Duration,
    /// How long deliveries may go on after that (contract 8).
    pub stop_deliveries: Duration,
    /// How long a whole stop may take before the process ends where it stands: only a disk that hangs takes longer than runs and deliveries may.
    pub stop_most: Duration,

    /// How long systemd is kept waiting for channels that have neither connected nor failed yet.
    pub ready_within: Duration,

    // Providers
    /// Bytes of a model's answer: far above any answer, far below what hurts a Pi.
    pub completion_bytes: usize,
    /// Bytes of an error body that are read: enough for its message.
    pub error_body_bytes: usize,
    /// The longest `Retry-After` that is waited for within a run; a longer one fails the attempt.
    pub retry_after_most: Duration,
    /// Name look-up and TCP and TLS connection: cannot be interrupted, hence short.
    pub connect: Duration,
    /// Name look-ups in progress at once, one for each name: they cannot be interrupted, hence few.
    pub look_ups: usize,
    /// Idle connections kept to one host: as many as `parallel` may be, so that a full house finds its own.
    pub idle_per_host: usize,
    /// Idle connections kept to all hosts of one policy.
    pub idle_connections: usize,
    /// How long an idle connection is kept: the pause between two messages of a chat.
    pub idle_kept: Duration,
    /// Bytes of the head of an answer: proxies add some kilobytes of headers.
    pub answer_head_bytes: usize,
    /// How long what `/api/show` said is believed (contract 1).
    pub model_facts_kept: Duration,

    // Tools
    /// One `http_fetch`, all its hops together (contract 6).
    pub fetch: Duration,

    // Chats
    /// How long a poll of a chat platform waits for news: each end of it costs a request, and a
    /// poll left behind by a crash blocks the next process for as long.
    pub poll_wait: Duration,
    /// How long after that a poll is given up: the platform answers at once when its wait is over.
    pub poll_slack: Duration,
    /// The wait behind a poll of somebody else: longer than ours last.
    pub poll_conflict: Duration,
    /// The wait before the first try to reach a platform again.
    pub reconnect_first: Duration,
    /// The longest wait between two such tries: after an outage the chats answer within it.
    pub reconnect_most: Duration,
    /// Bytes of one answer to a poll: far above a hundred messages, far below what hurts a Pi.
    pub poll_bytes: usize,
    /// How long one call of a chat platform may take that is no poll.
    pub chat_call: Duration,
    /// How long a run goes on before people are shown that it does: most are over by then.
    pub typing_after: Duration,
    /// Between two such signs: Telegram shows one for 5 s.
    pub typing_again: Duration,
    /// Chats of which is known when they were written to: more than talk within a minute.
    pub chats_known: usize,
    /// Requests that Discord takes of one bot within a second (its documentation, "Rate Limits").
    pub discord_a_second: usize,
    /// Between two log lines about one stranger (contract 3).
    pub stranger_again: Duration,
    /// Strangers that are remembered for that: a log line for each further one costs more than this.
    pub strangers_known: usize,

    // Skills
    /// Bytes of one `SKILL.md` (contract 6).
    pub skill_bytes: usize,
    /// Skills of one folder: their names and descriptions alone would fill a small model's context.
    pub skills: usize,
    /// Entries of one folder of skills that are looked at: a mistaken path may lead to a huge folder.
    pub skill_entries: usize,
    /// Bytes of all `SKILL.md` of one folder: read at start on a slow card.
    pub skills_bytes: usize,

    // Preflight
    /// How long all model servers together may take to tell of their models: a person waits.
    pub preflight: Duration,
    /// Model servers that are asked at once: homes have one to three.
    pub preflight_threads: usize,

    // HTTP front
    /// Connections of one port (contract 7).
    pub front_connections: usize,
    /// Connections of one address, loopback exempt (contract 7).
    pub front_per_address: usize,
    /// Bytes of a request's head (contract 7).
    pub head_bytes: usize,
    /// Fields of a request's head (contract 7).
    pub head_fields: usize,
    /// A connection between two requests: a scrape every quarter of a minute keeps its connection.
    pub front_idle: Duration,
    /// Streams (server-sent events) of one port (contract 7).
    pub front_streams: usize,
    /// The longest life of one stream: a client that is still there comes back by itself.
    pub stream_life: Duration,
    /// From the first look to a whole head (contract 7).
    pub head_wait: Duration,
    /// From the head to the whole body (contract 7).
    pub body_wait: Duration,
    /// Bytes of an inbound webhook body (contract 4).
    pub webhook_body_bytes: usize,
    /// Bytes of a body posted to the admin API: a configuration of 1 MiB.
    pub admin_body_bytes: usize,
    /// How long one write of an answer may hang before the client counts as gone.
    pub answer_write: Duration,
    /// Requests by `?wait=` that wait at once (contract 4).
    pub webhook_waiting: usize,
    /// Wrong bearer tokens a minute before they are refused unread (contract 7).
    pub auth_failures: u32,
    /// Threads that answer admin requests: pages ask for few things at once.
    pub admin_threads: usize,

    // Watch
    /// Events kept for replay (contract 7).
    pub events_kept: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let (seconds, hours, mib) = (
            Duration::from_secs,
            |n: u64| Duration::from_secs(n * 3600),
            1024 * 1024,
        );
        Limits {
            waiting_per_conversation: 20,
            inbox_rows: 1000,
            outbox_rows: 10_000,
            outbox_per_conversation: 1000,
            text_bytes: 64 * 1024,
            attempts: 3,
            finished_rows_kept: hours(7 * 24),
            dedup_window: hours(24),
            delivery_window: hours(24),
            delivery_backoff_first: seconds(1),
            delivery_backoff_most: seconds(300),
            delivery_scheduled: 4096,
            senders: 6,
            store_queue: 256,
            store_group: 128,
            store_lazy: Duration::from_millis(200),
            store_readers: 3,
            disk_free_least: 64 * 1024 * 1024,
            store_wait: seconds(30),
            memory_messages: 256,
            audit_kept: Duration::from_secs(30 * 24 * 3600),
            memory_keys: 4096,
            run_threads: 128,
            run_thread_idle: seconds(30),
            place_moving: seconds(30),
            straggler_wait: seconds(10),
            calls_read: 16,
            calls_per_reply: 8,
            observation_bytes: 6 * 1024,
            stop_runs: seconds(10),
            stop_cut: seconds(1),
            stop_deliveries: seconds(5),
            stop_most: seconds(30),
            ready_within: seconds(20),
            completion_bytes: 4 * mib,
            error_body_bytes: 64 * 1024,
            retry_after_most: seconds(60),
            connect: seconds(10),
            look_ups: 16,
            idle_per_host: 16,
            idle_connections: 64,
            idle_kept: seconds(60),
            answer_head_bytes: 12 * 1024,
            model_facts_kept: seconds(600),
            fetch: seconds(30),
            poll_wait: seconds(30),
            poll_slack: seconds(10),
            poll_conflict: seconds(35),
            reconnect_first: seconds(1),
            reconnect_most: seconds(30),
            poll_bytes: 4 * mib,
            chat_call: seconds(30),
            typing_after: Duration::from_millis(300),
            typing_again: seconds(4),
            chats_known: 1024,
            discord_a_second: 50,
            stranger_again: hours(1),
            strangers_known: 256,
            skill_bytes: 64 * 1024,
            skills: 100,
            skill_entries: 1000,
            skills_bytes: 2 * mib,
            preflight: seconds(15),
            preflight_threads: 8,
            front_connections: 64,
            front_per_address: 16,
            front_idle: seconds(60),
            front_streams: 32,
            stream_life: hours(1),
            head_bytes: 16 * 1024,
            head_fields: 64,
            head_wait: seconds(10),
            body_wait: seconds(30),
            webhook_body_bytes: mib,
            admin_body_bytes: mib + 64 * 1024,
            answer_write: seconds(10),
            webhook_waiting: 16,
            auth_failures: 10,
            admin_threads: 4,
            events_kept: 256,
        }
    }
}
