// The hybrid model: trainers with data parallelism around none, a part or all of their
// layers, a server that has the embedding and a layer in the middle, and a master that
// tells the trainers what to do.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/group.h"
#include "trireme/dist_autograd/context.h"
#include "trireme/testing/rpc_world.h"

namespace trireme::hybrid {

inline constexpr int kTrainers = 4, kServer = 4, kMaster = 5, kWorkers = 6;

/// What DataParallel wraps: nothing, fc2, or the whole model of a trainer.
enum class Wrap { None, Inside, Outside };
std::string to_string(Wrap wrap);

/// What a trainer gets.
struct FeatureSet {
  at::Tensor dense, sparse, values;
};
/// Four of sixteen examples: each has a twin with equal features and opposite value.
FeatureSet twin_batch(int trainer);
/// Others, in which nothing cancels out.
FeatureSet lopsided_batch(int trainer);
/// Rows of it, with all its values.
FeatureSet rows(const FeatureSet& batch, int64_t first, int64_t count);

/// Gradients of one trainer, of the server's parts in its context too.
struct StepResult {
  at::Tensor outputs, loss, fc1, fc2, net, em;
};

/// All weights, by layer.
struct Weights {
  at::Tensor fc1, fc2, net, em;
};
Weights first_weights();

/// A part of the model on the server.
class RemotePart {
 public:
  using Run = std::function<at::Tensor(const at::Tensor& weight, const at::Tensor& x)>;
  RemotePart(at::Tensor weight, Run run);
  at::Tensor forward(const at::Tensor& x) { return run_(weight_, x); }
  /// In the context of the call.
  at::Tensor gradient() const;
  void step(double rate);
  at::Tensor weight() const;

 private:
  mutable std::mutex mutex_;
  at::Tensor weight_;
  Run run_;
};
at::Tensor run_em(const at::Tensor& weight, const at::Tensor& indices);
at::Tensor run_net(const at::Tensor& weight, const at::Tensor& x);

/// What a worker has of its own.
struct Home {
  comm::Group group;
  /// Called in the middle of its backward, if set.
  std::function<void()> in_backward;
};

class HybridModel;

/// Made by the master, on a trainer.
class Trainer {
 public:
  using Part = rpc::RRef<RemotePart>;
  Trainer(Home home, Wrap wrap, Part em, Part net);
  ~Trainer();
  /// Forward and backward in a context of its own; then, with a rate, a step of plain
  /// SGD on all parameters, once all trainers are through with their backward.
  StepResult train(const FeatureSet& batch, bool exact, double rate);
  /// Two microbatches, or the first alone, while others may have more.
  std::vector<StepResult> train_uneven(
      const FeatureSet& batch, int64_t microbatches, bool exact);
  /// Of fc1 and fc2.
  std::vector<at::Tensor> weights() const;

 private:
  StepResult run(const FeatureSet& batch, bool exact, double rate);
  void step(const StepResult& gradients, double rate);

  Home home_;
  Part em_, net_;
  std::shared_ptr<HybridModel> model_;
};

/// The gradients of one trainer by torch's engine, in this process; those of the
/// trainer's layers are its own, before any mean.
StepResult one_process(const Weights& weights, const FeatureSet& batch);

/// Options of a world in which `count` workers from `first` on have a group too, which
/// they join before they meet the others. `edit` gets it with the options of each
/// worker, and no group for the rest; gradients cross all calls.
testing::RpcWorldOptions world_with_group(
    testing::RpcKind kind,
    int first,
    int count,
    const std::function<void(rpc::AgentOptions&, const comm::Group&)>& edit);

/// How workers reach each other.
enum class Way { Unix, JobKey, Certificates };
std::string to_string(Way way);

/// Options of a world of `kWorkers`; `edit_home` may change what a worker has.
testing::RpcWorldOptions hybrid_world(
    testing::RpcKind kind,
    Way way,
    const std::function<void(int rank, Home&)>& edit_home = {});

/// What the master uses.
struct Parts {
  Parts(const rpc::Agent& agent, Wrap wrap);
  Trainer::Part em, net;
  std::vector<rpc::RRef<Trainer>> trainers;
};
/// Whether no worker has a context any more, soon.
bool no_contexts_left(const rpc::Agent& agent, const std::vector<int>& workers);

}  // namespace trireme::hybrid

template <>
struct trireme::rpc::Fields<trireme::hybrid::FeatureSet> {
  using Set = hybrid::FeatureSet;
  static constexpr auto name = "FeatureSet";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&Set::dense, &Set::sparse, &Set::values);
};
template <>
struct trireme::rpc::Fields<trireme::hybrid::StepResult> {
  using Result = hybrid::StepResult;
  static constexpr auto name = "StepResult";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(
      &Result::outputs,
      &Result::loss,
      &Result::fc1,
      &Result::fc2,
      &Result::net,
      &Result::em);
};
