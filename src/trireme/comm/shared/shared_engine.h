// The engine of ranks that share memory, be they threads (local) or processes (shm).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/engine.h"
#include "trireme/comm/shared/channel_directory.h"
#include "trireme/comm/shared/group_steps.h"
#include "trireme/comm/shared/ring.h"
#include "trireme/comm/shared/world.h"

namespace trireme::comm {

/// One rank's engine of one group. Groups of a world share its World and its list of
/// channels.
class SharedEngine : public Engine {
 public:
  /// The engine of the whole world; meets all ranks. Rank 0 has made the root group's
  /// control block when it made the world's. `made` is called with the world before the
  /// others have come: who knows why they never will can stop it.
  static std::shared_ptr<SharedEngine> root(
      WorldSetup setup,
      const Deadline& deadline,
      const std::function<void(const std::shared_ptr<World>&)>& made = nullptr);

  int rank() const override { return steps_.rank(); }
  int size() const override { return steps_.size(); }
  std::string backend() const override { return world_->setup().backend; }
  const std::vector<int>& members() const override { return names_; }
  World& world() const { return *world_; }
  const std::shared_ptr<World>& share_world() const { return world_; }
  void run(const Collective& call, const Deadline& deadline) override;
  std::shared_ptr<Engine> split(int color, int key, const Deadline& deadline) override;
  std::unique_ptr<SendPort> open_send(
      int to, int tag, const ChannelOptions& options) override;
  std::unique_ptr<ReceivePort> open_receive(int from, int tag) override;
  at::Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options) override;
  void abort(const std::string& why) noexcept override;
  void stop(const Failure& failure) noexcept override { world_->stop(failure); }
  void set_note(const std::string& note) noexcept override {
    world_->control().slot(world_->rank()).note.write(note);
  }
  void check() const override { world_->check(); }
  std::shared_ptr<Engine> renew(const Deadline& deadline) override;

 private:
  /// A place in one group of the world.
  struct Seat {
    uint64_t control = 0;
    std::vector<int> members;
    int rank = 0;
    /// The same on all members, different from other groups of the world.
    uint32_t id = 0;
  };
  SharedEngine(
      std::shared_ptr<World> world,
      std::shared_ptr<ChannelDirectory> directory,
      Seat seat,
      const Deadline& deadline);

  ChannelEnd channel_end(int from, int to, int peer, int tag) const;

  std::shared_ptr<World> world_;
  std::shared_ptr<ChannelDirectory> directory_;
  uint32_t id_;
  GroupSteps steps_;
  std::vector<int> names_;
  uint32_t calls_ = 0;
  bool renewed_ = false;
};

/// Makes the control blocks of a world and of its root group in this rank's part of
/// memory.
uint64_t make_world(SharedMemory& memory, int size);

}  // namespace trireme::comm
