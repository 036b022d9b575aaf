//! What can happen next.

use tenure_core::{HoldState, Lease, NodeIndex};

use super::config::{Config, Want, Writes};
use super::world::World;

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Tick,
    Start {
        client: usize,
    },
    Connect {
        client: usize,
        node: NodeIndex,
    },
    Begin {
        client: usize,
    },
    Extend {
        client: usize,
    },
    /// A client shares what it had alone.
    Share {
        client: usize,
    },
    Release {
        client: usize,
    },
    /// A client looks whether it holds the lock, and means to write.
    Look {
        client: usize,
    },
    Write {
        client: usize,
    },
    /// A node executes the next command of a connection.
    Request {
        client: usize,
        node: NodeIndex,
    },
    /// A client hears the next answer of a connection.
    Reply {
        client: usize,
        node: NodeIndex,
    },
    /// What is on its way takes its time.
    Hold {
        client: usize,
        node: NodeIndex,
        replies: bool,
    },
    Break {
        client: usize,
        node: NodeIndex,
    },
    /// A client sees that a connection is gone.
    Notice {
        client: usize,
        node: NodeIndex,
    },
    /// A node executes a command of a connection that is gone.
    Stray {
        node: usize,
    },
    Pause {
        client: usize,
    },
    Resume {
        client: usize,
        timers_first: bool,
    },
    Die {
        client: usize,
    },
    Restart {
        node: usize,
        memory: Memory,
    },
    Flush {
        node: usize,
    },
    Evict {
        node: usize,
    },
    Jump {
        node: usize,
    },
}

/// What a node still has after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Memory {
    Kept,
    Lost,
    Old,
}

/// Everything that can happen next.
pub(super) fn possible(config: &Config, world: &World, horizon: u64, actions: &mut Vec<Action>) {
    if nothing_at_stake(config, world) {
        return;
    }
    if !config.any_time
        && let Some((deliver, hold)) = urgent(config, world)
    {
        return actions.extend([deliver].into_iter().chain(hold.filter(|_| world.left.holds > 0)));
    }
    // Time begins with the first call, unless it matters how long clocks have run by then.
    let from_the_first = config.alike() && config.node_rate_percent == 0;
    if world.tick < horizon && (world.clients.iter().any(|client| client.begun > 0) || !from_the_first) {
        actions.push(Action::Tick);
    }
    for client in 0..world.clients.len() {
        of_client(config, world, client, actions);
    }
    for (number, link) in world.links.iter().enumerate() {
        let (client, node) = place(config, number);
        if !link.broken && !link.requests.is_empty() {
            actions.push(Action::Request { client, node });
        }
        if world.left.breaks > 0 && link.up && !link.broken {
            actions.push(Action::Break { client, node });
        }
    }
    for node in 0..world.nodes.len() {
        of_node(config, world, node, actions);
    }
}

/// Whether nothing can be broken any more: too few can still get the lock.
fn nothing_at_stake(config: &Config, world: &World) -> bool {
    let mut acquiring = 0;
    let mut holding = 0;
    for (client, state) in world.clients.iter().enumerate() {
        let calls = state.alive || !state.started;
        let asks = state.lease().is_some_and(|lease| lease.standing().is_none()) || state.waits_locally();
        if calls && (state.begun < config.begins || asks) {
            acquiring += 1;
        } else if world.is_valid(client)
            || (calls && (state.about_to_write || extends(config, world, client)))
        {
            holding += 1;
        }
    }
    acquiring == 0 && holding <= 1 || acquiring == 1 && holding == 0 && world.fences.is_empty()
}

/// Whether an extension of a client may be under way: something is, and it has a lock.
fn extends(config: &Config, world: &World, client: usize) -> bool {
    let nodes = config.quorum().nodes();
    let links = &world.links[client * nodes..(client + 1) * nodes];
    let held = world.clients[client].lease().is_some_and(|lease| lease.standing().is_some());
    config.extends > 0
        && held
        && links.iter().any(|link| !link.requests.is_empty() || !link.replies.is_empty())
}

/// What follows at once, if nothing can be done about it.
pub(super) fn bound(config: &Config, world: &World) -> Option<Action> {
    let settled = config.any_time || world.left.holds > 0;
    if settled { None } else { urgent(config, world).map(|(deliver, _)| deliver) }
}

/// A message that takes no time unless it is held, and what can become of it: the second only where
/// connections may be slow.
fn urgent(config: &Config, world: &World) -> Option<(Action, Option<Action>)> {
    for (number, link) in world.links.iter().enumerate() {
        let (client, node) = place(config, number);
        let slow = config.slow.contains(&node.get());
        let hold = |replies: bool| slow.then_some(Action::Hold { client, node, replies });
        if !link.broken && !link.requests.is_empty() && !link.requests_held {
            return Some((Action::Request { client, node }, hold(false)));
        }
        let state = &world.clients[client];
        if state.alive && !state.paused && !link.replies_held {
            if !link.replies.is_empty() {
                return Some((Action::Reply { client, node }, hold(true)));
            }
            if link.broken {
                return Some((Action::Notice { client, node }, hold(true)));
            }
        }
    }
    None
}

fn of_client(config: &Config, world: &World, client: usize, actions: &mut Vec<Action>) {
    let state = &world.clients[client];
    if !state.started {
        return actions.push(Action::Start { client });
    }
    if !state.alive {
        return;
    }
    if state.paused {
        return actions.extend([false, true].map(|timers_first| Action::Resume { client, timers_first }));
    }
    for node in config.quorum().indexes() {
        let link = &world.links[client * config.quorum().nodes() + node.get()];
        if !link.replies.is_empty() {
            actions.push(Action::Reply { client, node });
        }
        if link.broken {
            actions.push(Action::Notice { client, node });
        } else if !link.up && config.connects(client, node, link.used) {
            actions.push(Action::Connect { client, node });
        }
    }
    // Clients that are alike ask in turn: who is called the first does not matter.
    let in_turn = client == 0
        || (!config.alike()
            || config.want(client) != config.want(client - 1)
            || world.clients[client - 1].begun > 0)
            && (!config.one_holds || world.holders() > 0);
    match state.lease() {
        Some(lease) => of_holder(config, world, client, lease, actions),
        None if in_turn && state.begun < config.begins => actions.push(Action::Begin { client }),
        None => {}
    }
    if world.left.pauses > 0 && config.pausing.contains(&client) {
        actions.push(Action::Pause { client });
    }
    if world.left.deaths > 0 {
        actions.push(Action::Die { client });
    }
}

fn of_holder(config: &Config, world: &World, client: usize, lease: &Lease, actions: &mut Vec<Action>) {
    let state = &world.clients[client];
    let Some(standing) = lease.standing() else { return };
    if !config.kept {
        actions.push(Action::Release { client });
    }
    if state.extended < config.extends_of(client) && standing.state(world.time(client)) != HoldState::Lost {
        actions.push(Action::Extend { client });
    }
    if config.want(client) == Want::AloneThenShared && lease.mode().is_exclusive() {
        actions.push(Action::Share { client });
    }
    if config.writes != Writes::None {
        actions.push(match state.about_to_write {
            true => Action::Write { client },
            false if world.is_valid(client) => Action::Look { client },
            false => return,
        });
    }
}

fn of_node(config: &Config, world: &World, node: usize, actions: &mut Vec<Action>) {
    let left = &world.left;
    if !world.nodes[node].strays.is_empty() {
        actions.push(Action::Stray { node });
    }
    let forgets = config.forgetful.contains(&node) && (!config.forget_in_hold || world.holders() > 0);
    let kinds = [(left.restarts, Memory::Kept), (left.losses, Memory::Lost), (left.tails, Memory::Old)];
    let possible = kinds.into_iter().filter(|(count, _)| forgets && *count > 0);
    actions.extend(possible.map(|(_, memory)| Action::Restart { node, memory }));
    if forgets && left.flushes > 0 {
        actions.push(Action::Flush { node });
    }
    let deleted = left.evictions > 0 && (!left.within_margin || world.margin() > 0);
    if deleted && world.nodes[node].owner(world.node_time(config, node)).is_some() {
        actions.push(Action::Evict { node });
    }
    if left.jumps > 0 {
        actions.push(Action::Jump { node });
    }
}

fn place(config: &Config, number: usize) -> (usize, NodeIndex) {
    let nodes = config.quorum().nodes();
    let node = config.quorum().indexes().nth(number % nodes).expect("within the quorum");
    (number / nodes, node)
}
