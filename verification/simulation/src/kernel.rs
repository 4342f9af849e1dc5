//! Virtual time, and what runs in it.
//!
//! There is one thread. A task runs until it waits; which of those that can go on goes on next is
//! drawn from the seed. Where none can, time jumps to the next event. So a run is a function of its
//! seed, and everything that can happen between two awaits of the code under test does happen in
//! some run.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::environment::{Environment, EnvironmentId};
use crate::random::Random;
use crate::scenario::Rates;
use crate::trace::Trace;

/// The simulated world's time, chance and tasks. Clones are the same world.
#[derive(Clone)]
pub(crate) struct Kernel {
    state: Arc<Mutex<State>>,
    woken: Arc<Mutex<BTreeSet<TaskId>>>,
}

type TaskId = u64;
type EventId = (Duration, u64);

struct State {
    now: Duration,
    random: Random,
    rates: Rates,
    is_kind: bool,
    events: BTreeMap<EventId, Event>,
    numbers: u64,
    environments: Vec<Environment>,
    spawned: Vec<(TaskId, Task)>,
    trace: Trace,
}

enum Event {
    Wake(Waker),
    Act(Box<dyn FnOnce() + Send>),
}

struct Task {
    environment: EnvironmentId,
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// How a run of the kernel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// What was waited for has come about.
    Reached,
    /// It has not, at the time by which it had to.
    TimedOut,
    /// The tasks keep each other busy and no time passes.
    Livelock,
}

/// No task takes so many turns without time passing.
const MAX_TURNS_AT_ONCE: u32 = 100_000;

impl Kernel {
    pub(crate) fn new(seed: u64, rates: Rates, print: bool) -> Self {
        let state = State {
            now: Duration::ZERO,
            random: Random::new(seed),
            rates,
            is_kind: false,
            events: BTreeMap::new(),
            numbers: 0,
            environments: Vec::new(),
            spawned: Vec::new(),
            trace: Trace::new(print),
        };
        Self { state: Arc::new(Mutex::new(state)), woken: Arc::default() }
    }

    /// The true time, which nobody in the simulated world can read.
    pub(crate) fn now(&self) -> Duration {
        self.lock().now
    }

    /// A moment that is unlike every other moment that was or will be asked for.
    pub(crate) fn moment(&self) -> Duration {
        let mut state = self.lock();
        state.now += Duration::from_nanos(1);
        state.now
    }

    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&Random) -> T) -> T {
        draw(&self.lock().random)
    }

    /// Draws with the rates of accidents that hold now.
    pub(crate) fn draw_fault<T>(&self, draw: impl FnOnce(&Random, &Rates) -> T) -> T {
        let state = self.lock();
        draw(&state.random, &state.rates)
    }

    /// Whether nothing goes wrong any more.
    pub(crate) fn is_kind(&self) -> bool {
        self.lock().is_kind
    }

    /// From now on nothing goes wrong, and whoever is frozen goes on.
    pub(crate) fn be_kind(&self) {
        let mut state = self.lock();
        state.rates = Rates::KIND;
        state.is_kind = true;
        let now = state.now;
        for environment in &mut state.environments {
            environment.thaw(now);
        }
    }

    pub(crate) fn trace(&self, text: impl FnOnce() -> String) {
        let mut state = self.lock();
        let now = state.now;
        state.trace.note(now, text);
    }

    pub(crate) fn trace_hash(&self) -> u64 {
        self.lock().trace.hash()
    }

    /// Has something happen at a moment, or as soon as possible.
    pub(crate) fn at(&self, moment: Duration, act: impl FnOnce() + Send + 'static) {
        self.schedule(moment, Event::Act(Box::new(act)));
    }

    pub(crate) fn wake_at(&self, moment: Duration, waker: Waker) -> EventId {
        self.schedule(moment, Event::Wake(waker))
    }

    pub(crate) fn cancel(&self, event: EventId) {
        self.lock().events.remove(&event);
    }

    fn schedule(&self, moment: Duration, event: Event) -> EventId {
        let mut state = self.lock();
        state.numbers += 1;
        let id = (moment.max(state.now), state.numbers);
        state.events.insert(id, event);
        id
    }

    pub(crate) fn add_environment(
        &self,
        environment: impl FnOnce(&Random) -> Environment,
    ) -> EnvironmentId {
        let mut state = self.lock();
        let environment = environment(&state.random);
        state.environments.push(environment);
        EnvironmentId(state.environments.len() - 1)
    }

    pub(crate) fn environment<T>(
        &self,
        id: EnvironmentId,
        read: impl FnOnce(&mut Environment, Duration) -> T,
    ) -> T {
        let mut state = self.lock();
        let now = state.now;
        read(&mut state.environments[id.0], now)
    }

    /// Starts a task in an environment. The handle gives its result, or `None` where its environment
    /// was killed.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        environment: EnvironmentId,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Slot<T> {
        let slot = Slot::new();
        let promise = Promise(slot.clone());
        let future = Box::pin(async move {
            let value = future.await;
            promise.0.fill(value);
        });
        let mut state = self.lock();
        state.numbers += 1;
        let id = state.numbers;
        state.spawned.push((id, Task { environment, future }));
        slot
    }

    /// Drops everything that is still to come, and with it what holds on to this world.
    pub(crate) fn clear(&self) {
        let (events, spawned) = {
            let mut state = self.lock();
            (std::mem::take(&mut state.events), std::mem::take(&mut state.spawned))
        };
        drop((events, spawned));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the tasks of a kernel.
pub(crate) struct Executor {
    kernel: Kernel,
    tasks: BTreeMap<TaskId, Task>,
    ready: BTreeSet<TaskId>,
}

impl Executor {
    pub(crate) fn new(kernel: Kernel) -> Self {
        Self { kernel, tasks: BTreeMap::new(), ready: BTreeSet::new() }
    }

    /// Runs until `reached`, which is asked whenever a task has ended or time passes.
    pub(crate) fn run_until(&mut self, limit: Duration, reached: impl Fn() -> bool) -> Ended {
        let mut turns = 0;
        loop {
            for (id, task) in std::mem::take(&mut self.kernel.lock().spawned) {
                self.tasks.insert(id, task);
                self.ready.insert(id);
            }
            let mut woken = self.kernel.woken.lock().unwrap_or_else(PoisonError::into_inner);
            self.ready.extend(std::mem::take(&mut *woken));
            drop(woken);
            if let Some(id) = self.next_task() {
                if self.turn(id) && reached() {
                    return Ended::Reached;
                }
                turns += 1;
                if turns > MAX_TURNS_AT_ONCE {
                    return Ended::Livelock;
                }
                continue;
            }
            turns = 0;
            if reached() {
                return Ended::Reached;
            }
            let event = {
                let mut state = self.kernel.lock();
                match state.events.pop_first() {
                    Some(((moment, _), event)) if moment <= limit => {
                        state.now = state.now.max(moment);
                        event
                    }
                    Some((id, event)) => {
                        state.events.insert(id, event);
                        state.now = limit;
                        return Ended::TimedOut;
                    }
                    None => return Ended::TimedOut,
                }
            };
            match event {
                Event::Wake(waker) => waker.wake(),
                Event::Act(act) => act(),
            }
        }
    }

    /// Draws the task that goes on. Those whose environment is frozen cannot.
    fn next_task(&mut self) -> Option<TaskId> {
        let Self { kernel, tasks, ready } = self;
        ready.retain(|id| tasks.contains_key(id));
        let state = kernel.lock();
        let able = ready.iter().filter(|id| {
            let environment = &state.environments[tasks[id].environment.0];
            environment.is_awake(state.now)
        });
        let able = able.copied().collect::<Vec<_>>();
        if able.is_empty() {
            return None;
        }
        Some(state.random.pick(&able))
    }

    /// Lets a task go on until it waits, unless an accident befalls its environment. Says whether it
    /// has ended.
    fn turn(&mut self, id: TaskId) -> bool {
        let kernel = self.kernel.clone();
        let Some(running) = self.tasks.get_mut(&id) else {
            return false;
        };
        let environment = running.environment;
        match accident(&kernel, environment) {
            Accident::None => {}
            Accident::Freeze(until) => {
                let text = || format!("environment {} freezes until {until:?}", environment.0);
                kernel.trace(text);
                // Time must pass by the end of the freeze, or nobody would look.
                kernel.at(until, || {});
                return false;
            }
            Accident::Crash => {
                kernel.trace(|| format!("environment {} is killed", environment.0));
                // What it has sent lives on.
                let dead = self.tasks.extract_if(.., |_, task| task.environment == environment);
                drop(dead.collect::<Vec<_>>());
                return true;
            }
        }
        self.ready.remove(&id);
        kernel.trace(|| format!("task {id} of environment {} goes on", environment.0));
        let alarm = Arc::new(Alarm { task: id, woken: Arc::clone(&kernel.woken) });
        let waker = Waker::from(alarm);
        let mut context = Context::from_waker(&waker);
        let has_ended = running.future.as_mut().poll(&mut context).is_ready();
        if has_ended {
            self.tasks.remove(&id);
        }
        has_ended
    }
}

enum Accident {
    None,
    Freeze(Duration),
    Crash,
}

fn accident(kernel: &Kernel, id: EnvironmentId) -> Accident {
    let mut state = kernel.lock();
    let State { random, rates, environments, now, .. } = &mut *state;
    let environment = &mut environments[id.0];
    let Some(rates) = environment.accidents(rates) else {
        return Accident::None;
    };
    if random.chance(rates.crash) {
        environment.kill();
        return Accident::Crash;
    }
    if random.chance(rates.freeze) {
        let until = *now + random.any_scale(rates.longest_freeze);
        environment.freeze(*now, until);
        return Accident::Freeze(until);
    }
    Accident::None
}

struct Alarm {
    task: TaskId,
    woken: Arc<Mutex<BTreeSet<TaskId>>>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).insert(self.task);
    }
}

/// A place for one value, and for whoever waits for it. Clones are the same place.
#[derive(Debug)]
pub(crate) struct Slot<T>(Arc<Mutex<Content<T>>>);

#[derive(Debug)]
enum Content<T> {
    Empty(Option<Waker>),
    Full(T),
    /// It was taken, or will never come.
    Spent,
}

impl<T> Slot<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Content::Empty(None))))
    }

    /// Puts the value in, unless there was one.
    pub(crate) fn fill(&self, value: T) {
        self.change(Content::Full(value));
    }

    /// Whether the value has come, or will never come.
    pub(crate) fn is_over(&self) -> bool {
        let content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !matches!(*content, Content::Empty(_))
    }

    fn change(&self, to: Content<T>) {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Content::Empty(waker) = &mut *content {
            let waker = waker.take();
            *content = to;
            drop(content);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Future for Slot<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<T>> {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Content::Empty(waker) = &mut *content {
            *waker = Some(task.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *content, Content::Spent) {
            Content::Full(value) => Poll::Ready(Some(value)),
            Content::Empty(_) | Content::Spent => Poll::Ready(None),
        }
    }
}

/// Whoever was to fill a slot. If it is dropped before, nothing will come.
struct Promise<T>(Slot<T>);

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.0.change(Content::Spent);
    }
}
