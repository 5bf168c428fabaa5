#include "trireme/rpc/engine.h"

#include <algorithm>
#include <chrono>
#include <sys/prctl.h>

#include "trireme/core/deadline.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/rpc/word_wait.h"

namespace trireme::rpc {

namespace {

using Clock = Time::clock;

// While something happens, the engine's thread looks at the time that often, so that
// nobody has to wake it for acknowledgements.
constexpr std::chrono::milliseconds kBeat{10};

// What gathers leaves after that time, or when there is so much of it.
constexpr std::chrono::microseconds kGather{30};
constexpr std::size_t kMostGathered = 128;
// Where so many more have come meanwhile, more are to come.
constexpr std::size_t kFlowing = 8;
// How long its thread is away after something has gathered: it need not be woken then.
constexpr std::chrono::microseconds kAfterGathering{100};

// A thread has done what is to be done.
class Performed {
 public:
  explicit Performed(std::atomic<std::size_t>& performing) : performing_(performing) {}
  ~Performed() { --performing_; }
  Performed(const Performed&) = delete;
  Performed& operator=(const Performed&) = delete;

 private:
  std::atomic<std::size_t>& performing_;
};

std::uint64_t first_number() {
  // Above all that a former process of this place has used.
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(
          std::chrono::system_clock::now().time_since_epoch())
          .count());
}

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      releases_(
          std::make_shared<Releases>([this] { want_wake(Clock::now() + kBeat); })),
      protocol_(
          options_.protocol,
          options_.me,
          options_.world_size,
          first_number(),
          releases_) {}

Engine::~Engine() {
  stop("its agent has ended");
  releases_->close();
}

void Engine::start(Transport& transport) {
  transport_ = &transport;
  thread_ = std::thread([this] { run(); });
}

// Changes the protocol under the lock, and does without it what follows.
template <class Change>
void Engine::change(Leave leave, const Change& change) {
  const Time now = Clock::now();
  Effects effects;
  bool gathers = false;
  {
    const std::lock_guard lock(mutex_);
    change(now);
    if (leave == Leave::Now || leave == Leave::Soon)
      gathered_ = leave == Leave::Now ? 0 : (gathered_ + 1) % kMostGathered;
    has_gathered_ = has_gathered_ || leave == Leave::Soon;
    gathers = gathered_ > 0;
    if (!gathers)
      seen_gathered_ = 0;
    gathers_.store(gathers);
    effects = protocol_.take_effects(now, !gathers && leave != Leave::Later);
    ++performing_;
  }
  active_.store(true, std::memory_order_relaxed);
  want_wake(now + (gathers && leave == Leave::Soon ? kGather : kBeat));
  perform(std::move(effects));
}

void Engine::perform(Effects wanted) {
  // What goes with the effects may let references go: they go first.
  const Performed performed(performing_);
  Effects effects = std::move(wanted);
  for (auto& [to, packet] : effects.packets)
    send(to, std::move(packet));
  for (const WorkerId worker : effects.cut_off)
    transport_->give_up(worker);
  if (!effects.finished.empty()) {
    const LateWakes late;
    for (auto& [completion, outcome] : effects.finished)
      completion->finish(std::move(outcome));
  }
  if (!effects.calls.empty())
    options_.serve(std::move(effects.calls));
  for (const Effects::Cancel& cancel : effects.cancelled)
    options_.cancel(cancel.token, cancel.why);
  if (options_.forget)
    for (const auto& [worker, why] : effects.forgotten)
      options_.forget(worker, why);
}

// What cannot be sent must not keep the rest from being done.
void Engine::send(WorkerId to, Packet packet) {
  try {
    transport_->send(to, std::move(packet));
  } catch (const Error& error) {
    TRIREME_LOG(error, "rpc") << "nothing goes to worker " << to << ": "
                              << error.what();
  }
}

Engine::Leave Engine::leave(Haste haste) {
  switch (haste) {
    case Haste::Gather:
      return Leave::Soon;
    case Haste::Now:
      return Leave::Now;
    case Haste::Later:
      break;
  }
  return Leave::Later;
}

std::uint64_t Engine::call(
    WorkerId to, Request request, std::unique_ptr<Completion> completion, Haste haste) {
  const Time deadline = request.deadline;
  std::uint64_t number = 0;
  change(leave(haste), [&](Time now) {
    number = protocol_.call(to, std::move(request), std::move(completion), now);
  });
  want_wake(deadline);
  return number;
}

void Engine::cancel(std::uint64_t call) {
  change(Leave::Now, [&](Time now) { protocol_.cancel(call, now); });
}

void Engine::respond(
    const Incoming& incoming, Status status, Payload payload, bool hurry) {
  change(leave(hurry), [&](Time now) {
    protocol_.respond(incoming, status, std::move(payload), now);
  });
}

Reference Engine::name(WorkerId owner) {
  const std::lock_guard lock(mutex_);
  return protocol_.name(owner);
}

void Engine::abandon(ObjectId name) {
  change(Leave::Now, [&](Time now) { protocol_.abandon(name, now); });
}

Reference Engine::own(std::shared_ptr<void> cargo) {
  const std::lock_guard lock(mutex_);
  return protocol_.own(std::move(cargo));
}

void Engine::flush() {
  change(Leave::Now, [](Time) {});
}

void Engine::block() {
  if (gathers_.load())
    flush();
}

void Engine::received(WorkerId from, Packet packet) {
  const MustNotWait must_not;
  change(
      Leave::Along, [&](Time now) { protocol_.receive(from, std::move(packet), now); });
}

void Engine::lost(WorkerId worker, const std::string&) {
  const MustNotWait must_not;
  change(Leave::Now, [&](Time now) { protocol_.lost(worker, now); });
}

void Engine::gone(WorkerId worker, const std::string& why) {
  const MustNotWait must_not;
  change(Leave::Now, [&](Time now) { protocol_.gone(worker, why, now); });
}

void Engine::run() {
  const MustNotWait must_not;
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // it sleeps for microseconds
  while (!ends_.load()) {
    // What is wanted from here on counts when it sleeps.
    planned_.store(Time::max().time_since_epoch().count());
    const bool active = active_.exchange(false, std::memory_order_relaxed);
    const Time now = Clock::now();
    Effects effects;
    Time next;
    bool flows = false;
    bool gathers = false;
    {
      const std::lock_guard lock(mutex_);
      protocol_.tick(now);
      gathers = std::exchange(has_gathered_, false);
      flows = keeps_gathering();
      effects = protocol_.take_effects(now, !flows);
      next = protocol_.next();
      ++performing_;
    }
    perform(std::move(effects));
    // More may come: then nobody need wake this thread for it.
    if (gathers)
      next = std::min<Time>(next, now + kAfterGathering);
    // What has woken it counts, too: else the next change would wake it again.
    if (active || active_.load(std::memory_order_relaxed))
      next = std::min(next, now + kBeat);
    sleep(next);
  }
}

// With the lock: whether more has gathered since the thread last came by, so that it
// pays to wait for what follows.
bool Engine::keeps_gathering() {
  const bool flows = gathered_ >= seen_gathered_ + kFlowing;
  if (!flows)
    gathered_ = 0;
  seen_gathered_ = gathered_;
  gathers_.store(flows);
  return flows;
}

// Until then, or until somebody wants it sooner. What is asked for changes planned_
// first and word_ after it, so that nothing is overslept.
void Engine::sleep(Time next) {
  asleep_.store(true);
  const std::uint32_t seen = word_.load();
  want_by(next);
  const Time planned{Time::duration(planned_.load())};
  const Time now = Clock::now();
  if (planned > now && !ends_.load())
    wait_a_moment(
        word_, seen, std::min<Clock::duration>(planned - now, std::chrono::hours(1)));
  asleep_.store(false);
}

// Whether the thread was to come by later than that; now it is not.
bool Engine::want_by(Time by) {
  const Time::rep ticks = by.time_since_epoch().count();
  Time::rep planned = planned_.load(std::memory_order_relaxed);
  while (planned > ticks)
    if (planned_.compare_exchange_weak(planned, ticks))
      return true;
  return false;
}

void Engine::wake() {
  word_.fetch_add(1);
  if (asleep_.load())
    wake_one(word_);
}

// Makes sure that the thread looks at the time by then, or a little later.
void Engine::want_wake(Time by) {
  if (want_by(by))
    wake();
}

void Engine::stop(const std::string& why) {
  if (thread_.joinable()) {
    ends_.store(true);
    wake();
    thread_.join();
  }
  Effects effects;
  {
    const std::lock_guard lock(mutex_);
    const Time now = Clock::now();
    for (WorkerId worker = 0; worker < options_.world_size; ++worker)
      protocol_.gone(worker, why, now);
    effects = protocol_.take_effects(now);
    ++performing_;
  }
  effects.packets.clear();
  effects.cut_off.clear();
  effects.calls.clear();
  perform(std::move(effects));
}

Engine::Load Engine::load() const {
  const std::lock_guard lock(mutex_);
  return {
      .waiting = protocol_.waiting(),
      .running = protocol_.running(),
      .unsent = protocol_.unsent(),
      .undone = releases_->waiting() + performing_.load()};
}

std::size_t Engine::waiting(WorkerId worker) const {
  const std::lock_guard lock(mutex_);
  return protocol_.waiting(worker);
}

std::string Engine::why_gone(WorkerId worker) const {
  const std::lock_guard lock(mutex_);
  return protocol_.gone(worker).value_or("");
}

std::uint64_t Engine::activity() const {
  const std::lock_guard lock(mutex_);
  return protocol_.activity();
}

std::vector<std::string> Engine::outstanding() const {
  const std::lock_guard lock(mutex_);
  return protocol_.outstanding(Clock::now());
}

std::vector<Tie> Engine::left() const {
  const std::lock_guard lock(mutex_);
  return protocol_.references().left();
}

std::shared_ptr<void> Engine::cargo(ObjectId id) const {
  const std::lock_guard lock(mutex_);
  return protocol_.references().cargo(id);
}

}  // namespace trireme::rpc
