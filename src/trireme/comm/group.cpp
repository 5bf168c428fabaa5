#include "trireme/comm/group.h"

#include <atomic>
#include <exception>

#include "trireme/comm/no_collectives.h"
#include "trireme/comm/worker.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"

namespace trireme::comm {

struct Group::Impl {
  Impl(std::shared_ptr<Engine> its_engine, const GroupOptions& its_options)
      : owner(std::move(its_engine)),
        engine(owner.get()),
        rank(owner->rank()),
        size(owner->size()),
        backend(owner->backend()),
        members(owner->members()),
        options(its_options),
        exceptions_at_start(std::uncaught_exceptions()),
        worker([this] { set_log_rank(rank, size); }) {}
  ~Impl() {
    // Or the worker would go on waiting for peers that we have let down. Without work,
    // an exception that passes a sub-group is nobody else's business: it may be caught.
    if (owner && worker.busy() && std::uncaught_exceptions() > exceptions_at_start)
      owner->abort(text(
          "[comm] rank ",
          world_rank(),
          " left a group with work in it by an exception; see its own output"));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  int world_rank() const { return members[static_cast<size_t>(rank)]; }

  // Null once closed. Calls that take their turn use `engine`, since closing takes its
  // turn too; the others share the ownership, so that it does not go under their feet.
  std::mutex owner_mutex;
  std::shared_ptr<Engine> owner;
  std::atomic<Engine*> engine;
  const int rank, size;
  const std::string backend;
  const std::vector<int> members;
  const GroupOptions options;
  int exceptions_at_start;
  std::mutex mutex;
  Worker worker;  // last: it ends before the engine goes
};

Group::Group(std::shared_ptr<Engine> engine, const GroupOptions& options) {
  if (options.timeout.count() <= 0)
    throw InvalidArgument(text(
        "[comm] expected a timeout above zero, got ",
        options.timeout.count(),
        " ms; give a longer one"));
  if (engine)
    impl_ = std::make_shared<Impl>(std::move(engine), options);
}

namespace {

[[noreturn]] void refuse_closed() {
  throw InvalidArgument(
      "[comm] expected an open group, got one that was closed; call init() or "
      "renew()");
}

void check_device(c10::DeviceType device) {
  if (device == c10::DeviceType::CUDA)
    throw NotSupported(
        "[comm] expected CPU tensors, got CUDA: this build has no engine for them; "
        "build "
        "with NCCL, or move them to the CPU");
  if (device != c10::DeviceType::CPU)
    throw InvalidArgument(text(
        "[comm] expected tensors on the CPU, got ",
        c10::DeviceTypeName(device, true),
        "; move them there first"));
}

/// A group of one has nobody to come in another order.
void check_order(int size) {
  if (size > 1)
    NoCollectives::check();
}

}  // namespace

Group::Impl& Group::impl() const {
  if (!impl_)
    throw InvalidArgument(
        "[comm] expected a group, got an empty handle; it comes from init(), "
        "run_local() or "
        "split() with a colour of zero or more");
  if (impl_->engine.load(std::memory_order_acquire) == nullptr)
    refuse_closed();
  return *impl_;
}

std::shared_ptr<Engine> Group::share_engine() const {
  Impl& state = impl();
  const std::lock_guard lock(state.owner_mutex);
  if (!state.owner)
    refuse_closed();
  return state.owner;
}

int Group::rank() const {
  return impl().rank;
}
int Group::size() const {
  return impl().size;
}
std::string Group::backend() const {
  return impl().backend;
}
const std::vector<int>& Group::members() const {
  return impl().members;
}
const GroupOptions& Group::options() const {
  return impl().options;
}

Engine& Group::engine(c10::DeviceType device) const {
  Engine* engine = impl().engine.load(std::memory_order_acquire);
  check_device(device);
  if (engine == nullptr)
    refuse_closed();  // by another thread, just now
  return *engine;
}

std::unique_lock<std::mutex> Group::begin_call() const {
  Impl& state = impl();
  check_order(state.size);
  std::unique_lock lock(state.mutex);
  impl();  // it may have been closed while we waited for our turn
  state.worker.drain();
  return lock;
}

Work Group::enqueue(
    const CallOrder& order, std::function<void(const Deadline&)> body) const {
  Impl& state = impl();
  check_order(state.size);
  std::lock_guard lock(state.mutex);
  impl();
  const auto timeout =
      order.timeout.count() > 0 ? order.timeout : state.options.timeout;
  // The clock starts when the operation does, not while it waits for its turn.
  return state.worker.push(
      [timeout, body = std::move(body)] { body(Deadline::after(timeout)); });
}

Deadline Group::deadline(const CallOrder& order) const {
  return Deadline::after(order.timeout.count() > 0 ? order.timeout : options().timeout);
}

Group Group::split(int color, int key) const {
  std::shared_ptr<Engine> part;
  in_order({}, [&](const Deadline& deadline) {
    part = engine().split(color, key, deadline);
  });
  return Group(std::move(part), options());
}

void Group::close() {
  if (!impl_)
    return;
  const std::unique_lock lock(impl_->mutex);
  impl_->worker.drain();
  impl_->engine.store(nullptr, std::memory_order_release);
  std::shared_ptr<Engine> last;  // goes after the lock
  const std::lock_guard owner_lock(impl_->owner_mutex);
  last.swap(impl_->owner);
}

Group Group::renew() const {
  std::shared_ptr<Engine> next;
  in_order({}, [&](const Deadline& deadline) { next = engine().renew(deadline); });
  return Group(std::move(next), options());
}

void Group::abort(const std::string& why) const {
  share_engine()->abort(text("[comm] rank ", impl_->world_rank(), " failed: ", why));
}

void Group::set_note(const std::string& note) const {
  share_engine()->set_note(note);
}

at::Tensor Group::allocate(
    at::IntArrayRef sizes, const at::TensorOptions& options) const {
  const std::shared_ptr<Engine> engine = share_engine();
  check_device(options.device().type());
  return engine->allocate(sizes, options);
}

}  // namespace trireme::comm
