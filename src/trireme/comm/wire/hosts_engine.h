// The engine of ranks on several hosts: shared memory inside a host, a wire between
// them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/engine.h"
#include "trireme/comm/shared/shared_engine.h"
#include "trireme/comm/wire/hosts_call.h"
#include "trireme/comm/wire/wire_engine.h"

namespace trireme::comm {

/// Stops the world of a host's ranks when the wire between the hosts fails. The wire
/// does not keep it alive.
void stop_with(WireWorld& wire, const std::weak_ptr<World>& inner);

/// One rank's engine of a group whose ranks live on several hosts. One rank a host, its
/// leader, talks to the other hosts; the others reach it through shared memory. Sums
/// are taken in the order of the ranks all the same. A failure of either world stops
/// the other, and names the world's rank where it began.
class HostsEngine : public Engine {
 public:
  /// The engine of the whole world: `inner` has this host's ranks, `flat` all of them,
  /// and host_of[k] names the host of rank k. InvalidArgument unless the ranks of a
  /// host follow one another.
  static std::shared_ptr<HostsEngine> root(
      std::shared_ptr<SharedEngine> inner,
      std::shared_ptr<WireEngine> flat,
      std::vector<int> host_of);

  int rank() const override { return flat_->rank(); }
  int size() const override { return flat_->size(); }
  std::string backend() const override { return flat_->backend(); }
  const std::vector<int>& members() const override { return flat_->members(); }
  const HostLayout& layout() const { return group_.layout; }
  void run(const Collective& call, const Deadline& deadline) override;
  /// Ranks of one host become a group in shared memory; ranks of several whose order
  /// mixes hosts talk over the wire alone.
  std::shared_ptr<Engine> split(int color, int key, const Deadline& deadline) override;
  /// Channels inside a host go through its memory.
  std::unique_ptr<SendPort> open_send(
      int to, int tag, const ChannelOptions& options) override;
  std::unique_ptr<ReceivePort> open_receive(int from, int tag) override;
  at::Tensor allocate(
      at::IntArrayRef sizes, const at::TensorOptions& options) override {
    return group_.inner->allocate(sizes, options);
  }
  void abort(const std::string& why) noexcept override;
  void stop(const Failure& failure) noexcept override;
  void set_note(const std::string& note) noexcept override {
    group_.inner->set_note(note);
  }
  void check() const override;
  std::shared_ptr<Engine> renew(const Deadline& deadline) override;

 private:
  /// The host of every rank of the world.
  using Hosts = std::shared_ptr<const std::vector<int>>;
  HostsEngine(
      std::shared_ptr<SharedEngine> inner,
      std::shared_ptr<WireEngine> flat,
      HostLayout layout,
      Hosts hosts);
  void join_failures() const;
  bool is_here(int rank) const { return layout().host_of(rank) == layout().mine; }
  int inner_rank(int rank) const { return rank - layout().leader(layout().mine); }

  std::shared_ptr<WireEngine> flat_;
  HostsGroup group_;
  Hosts hosts_;
  /// Where the next renewal begins inside the host: a former one may have got so far.
  std::shared_ptr<SharedEngine> newest_inner_ = group_.inner;
  uint32_t calls_ = 0;
};

}  // namespace trireme::comm
