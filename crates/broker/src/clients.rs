//! All connections, and which of them have something to do.

use std::collections::VecDeque;

use jobyard_engine::{ClientId, Limits};
use jobyard_protocols::Codec;

use crate::client::{Client, Counted};
use crate::event::slot;
use crate::timers::Timers;

/// All connections.
#[derive(Default)]
pub(crate) struct Clients {
    connected: Connected,
    /// Those that have something to decode, the one whose turn it is first.
    pub(crate) queue: VecDeque<ClientId>,
    /// In this turn: up to when all that had arrived was read.
    pub(crate) heard_until_ms: u64,
    /// Those to which something happened, or whose output is withheld.
    pub(crate) changed: Vec<ClientId>,
    /// When they will have been silent for too long.
    pub(crate) heartbeats: Timers,
    /// When those that are to be closed are given up.
    pub(crate) farewells: Timers,
    /// How many of them came when there was no room.
    pub(crate) turned_away: usize,
    /// Clients that connected since the start.
    pub(crate) total: u64,
    /// Over all clients, when last counted.
    pub(crate) counted: Counted,
}

impl Clients {
    /// Takes a client in, if only to turn it away.
    pub(crate) fn add(&mut self, id: ClientId, codec: Box<dyn Codec>, turned_away: bool, probes: bool) {
        self.total += 1;
        self.turned_away += usize::from(turned_away);
        self.connected.insert(id, Client::new(self.total, codec, turned_away, probes));
        self.change(id);
    }

    /// Forgets a client.
    pub(crate) fn remove(&mut self, id: ClientId) {
        let Some(mut client) = self.connected.remove(id) else { return };
        self.turned_away -= usize::from(client.turned_away);
        self.heartbeats.replace(&mut client.heartbeat, id, None);
        self.farewells.replace(&mut client.farewell, id, None);
        self.counted.input_bytes -= client.counted.input_bytes;
        self.counted.memory_bytes -= client.counted.memory_bytes;
    }

    pub(crate) fn get(&self, id: ClientId) -> Option<&Client> {
        self.connected.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.connected.get_mut(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.connected.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.connected.count == 0
    }

    /// All ids, in order: that of the slots must decide nothing.
    pub(crate) fn ids(&self) -> Vec<ClientId> {
        let mut ids: Vec<_> = self.connected.iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }

    /// Something happened to the client: it will be settled at the end of the turn.
    pub(crate) fn change(&mut self, id: ClientId) {
        if let Some(client) = self.connected.get_mut(id)
            && !client.listed
        {
            client.listed = true;
            self.changed.push(id);
        }
    }

    /// Queues the client at the back, if it has something to decode.
    pub(crate) fn queue_up(&mut self, id: ClientId, limits: &Limits) {
        if let Some(client) = self.connected.get_mut(id)
            && !client.queued
            && client.runnable(limits)
        {
            client.queued = true;
            client.heard_until_ms = self.heard_until_ms;
            self.queue.push_back(id);
        }
    }

    /// Brings the client's timers up to date.
    pub(crate) fn schedule(&mut self, id: ClientId, limits: &Limits) {
        let Some(client) = self.connected.get_mut(id) else { return };
        let (silent_at_ms, farewell_at_ms) = (client.silent_at_ms(), client.farewell_at_ms(limits));
        self.heartbeats.set(&mut client.heartbeat, id, silent_at_ms);
        self.farewells.set(&mut client.farewell, id, farewell_at_ms);
    }

    /// The client that will have been silent for too long first, if that is at `until_ms` or before, and when that is.
    /// One that may have sent something which was not looked at yet is passed over.
    pub(crate) fn next_silent(&mut self, until_ms: u64, limits: &Limits) -> Option<(u64, ClientId)> {
        loop {
            let (at_ms, id) = self.heartbeats.first().filter(|&(at_ms, _)| at_ms <= until_ms)?;
            let client = self.connected.get_mut(id).expect("a client's timers go with it");
            let silent_at_ms = client.silent_at_ms();
            if silent_at_ms == Some(at_ms) && !client.unheard(limits) {
                return Some((at_ms, id));
            }
            let later_ms =
                silent_at_ms.map(|ms| if ms <= until_ms && client.unheard(limits) { until_ms + 1 } else { ms });
            self.heartbeats.replace(&mut client.heartbeat, id, later_ms);
        }
    }

    /// A client that is to be given up at `until_ms` or before.
    pub(crate) fn next_farewell(&mut self, until_ms: u64, limits: &Limits) -> Option<ClientId> {
        loop {
            let (at_ms, id) = self.farewells.first().filter(|&(at_ms, _)| at_ms <= until_ms)?;
            let client = self.connected.get_mut(id).expect("a client's timers go with it");
            let farewell_at_ms = client.farewell_at_ms(limits);
            if farewell_at_ms == Some(at_ms) {
                return Some(id);
            }
            self.farewells.replace(&mut client.farewell, id, farewell_at_ms);
        }
    }

    /// Counts again what the client takes.
    pub(crate) fn recount(&mut self, id: ClientId) {
        let Some(client) = self.connected.get_mut(id) else { return };
        let now = Counted { input_bytes: client.unfinished_bytes(), memory_bytes: client.memory_bytes() };
        let before = std::mem::replace(&mut client.counted, now);
        self.counted.input_bytes = self.counted.input_bytes + now.input_bytes - before.input_bytes;
        self.counted.memory_bytes = self.counted.memory_bytes + now.memory_bytes - before.memory_bytes;
    }

    /// The client with the most unfinished input; of several the one that came first.
    pub(crate) fn largest_input(&self) -> Option<ClientId> {
        let by_size = self.connected.iter().map(|(id, client)| (client.unfinished_bytes(), std::cmp::Reverse(id)));
        by_size.max().map(|(_, std::cmp::Reverse(id))| id)
    }
}

/// The clients, by their slots.
#[derive(Default)]
struct Connected {
    slots: Vec<Option<(ClientId, Box<Client>)>>,
    count: usize,
}

impl Connected {
    fn insert(&mut self, id: ClientId, client: Client) {
        if self.slots.len() <= slot(id) {
            self.slots.resize_with(slot(id) + 1, || None);
        }
        let previous = self.slots[slot(id)].replace((id, Box::new(client)));
        assert!(previous.is_none(), "{id:?} has the slot of another");
        self.count += 1;
    }

    fn remove(&mut self, id: ClientId) -> Option<Box<Client>> {
        let (_, client) = self.slots.get_mut(slot(id))?.take_if(|(known, _)| *known == id)?;
        self.count -= 1;
        Some(client)
    }

    fn get(&self, id: ClientId) -> Option<&Client> {
        let (known, client) = self.slots.get(slot(id))?.as_ref()?;
        (*known == id).then_some(client)
    }

    fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        let (known, client) = self.slots.get_mut(slot(id))?.as_mut()?;
        (*known == id).then_some(client)
    }

    fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.slots.iter().flatten().map(|(id, client)| (*id, &**client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Mute;
    use crate::event::SLOT_BITS;

    #[test]
    fn what_is_counted_over_all_clients_goes_with_them() {
        let mut clients = Clients::default();
        for (id, turned_away) in [(1, false), (2, true), (3, true)] {
            clients.add(ClientId(id), Box::new(Mute), turned_away, false);
            clients.get_mut(ClientId(id)).unwrap().input.push(b"unfinished");
            clients.recount(ClientId(id));
        }
        assert_eq!((clients.len(), clients.total, clients.turned_away), (3, 3, 2));
        assert_eq!(clients.counted.input_bytes, 30);
        let one = clients.counted.memory_bytes / 3;
        clients.remove(ClientId(2));
        clients.remove(ClientId(2));
        assert_eq!((clients.len(), clients.total, clients.turned_away), (2, 3, 1));
        assert_eq!((clients.counted.input_bytes, clients.counted.memory_bytes), (20, 2 * one));
        clients.remove(ClientId(1));
        clients.remove(ClientId(3));
        assert_eq!((clients.turned_away, clients.counted.input_bytes, clients.counted.memory_bytes), (0, 0, 0));
        assert!(clients.is_empty());
    }

    #[test]
    fn who_has_gone_is_not_taken_for_the_one_who_has_that_slot_now() {
        let [gone, here] = [1, 2].map(|count| ClientId(count << SLOT_BITS | 3));
        let mut clients = Clients::default();
        clients.add(gone, Box::new(Mute), false, false);
        clients.remove(gone);
        clients.add(here, Box::new(Mute), false, false);
        clients.changed.clear();
        clients.get_mut(here).unwrap().listed = false;
        clients.change(gone);
        clients.recount(gone);
        clients.remove(gone);
        assert!(clients.get(gone).is_none() && clients.get_mut(gone).is_none() && clients.changed.is_empty());
        assert_eq!((clients.len(), clients.ids()), (1, vec![here]));
    }

    #[test]
    #[should_panic(expected = "has the slot of another")]
    fn two_clients_cannot_have_one_slot() {
        let mut clients = Clients::default();
        for count in [1, 2] {
            clients.add(ClientId(count << SLOT_BITS), Box::new(Mute), false, false);
        }
    }
}
