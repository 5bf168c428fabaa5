// The rows of a table that one server has, and what trainers may do to them.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "trireme/dist_autograd/ids.h"
#include "trireme/dist_autograd/row_optimizer.h"
#include "trireme/dist_autograd/row_spread.h"
#include "trireme/rpc/function_table.h"
#include "trireme/rpc/future.h"

namespace trireme::dist_autograd {

class ContextState;

/// What a server is told of a table, and of its own part.
struct ShardPlan {
  std::string name;
  /// Which one of that name.
  std::uint64_t ordinal = 1;
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::int64_t server = 0;
  std::int64_t servers = 1;
  Spread spread = Spread::Remainder;
  std::uint64_t seed = 0;
  /// First values are normally distributed around 0.
  double deviation = 1;
  RowOptimizerOptions optimizer{};
};

/// How a table is changed by the gradients of a context.
struct RowStep {
  double lr = 0;
  /// How many trainers step together, each with a context of its own: the table waits
  /// for all of them, and steps once, by the mean of their gradients. 1: at once, by
  /// this one's alone.
  int trainers = 1;
};

/// Rows are numbered as RowSpread has them. All of it may be called by any thread.
class EmbeddingShard {
 public:
  explicit EmbeddingShard(const ShardPlan& plan);

  const ShardPlan& plan() const { return plan_; }
  /// Rows, by number; in a context they are a part of its graph.
  at::Tensor lookup(const at::Tensor& numbers) const;
  /// A step by what the context of the call has for these rows, which stays there.
  /// Ready when it is done.
  rpc::Future<void> step(const RowStep& how);

  /// Rows of "weight", or of a state of the optimizer; copies of them.
  at::Tensor read(
      const std::string& name, std::int64_t first, std::int64_t count) const;
  void write(const std::string& name, std::int64_t first, const at::Tensor& rows);
  std::int64_t steps() const;
  void set_steps(std::int64_t steps);

 private:
  // One trainer's part in a step that waits for others.
  struct Share {
    std::shared_ptr<ContextState> context;
    at::Tensor gradient;
    rpc::Promise<void> done;
  };
  using Round = std::map<ContextId, Share>;
  void drop_stale(const ContextId& own, Round& stale);
  void expect_same(const RowStep& how) const;
  void apply(Round round, double lr);
  at::Tensor rows_of(
      const std::string& name, std::int64_t first, std::int64_t count) const;

  const ShardPlan plan_;
  mutable std::shared_mutex mutex_;  // of the values
  at::Tensor weight_;
  RowOptimizer optimizer_;
  std::mutex round_mutex_;
  RowStep round_step_;
  Round round_;
};

/// The first values of rows, by id: each follows from the seed, the table's name and
/// the row alone, so that they are the same however many servers share them.
at::Tensor first_values(const ShardPlan& plan, const at::Tensor& ids);

/// Makes a server's part; one that has it already under that name and ordinal gives the
/// same, as long as anybody holds it. InvalidArgument if that was made otherwise.
inline const rpc::Function<std::shared_ptr<EmbeddingShard>(ShardPlan)> kMakeShard{
    .name = "trireme.embedding.make"};

/// Adds what servers serve and trainers call to a table.
void add_embedding_functions(rpc::FunctionTable& functions);

}  // namespace trireme::dist_autograd

template <>
struct trireme::rpc::Fields<trireme::dist_autograd::ShardPlan> {
  using Plan = dist_autograd::ShardPlan;
  static constexpr auto name = "trireme.ShardPlan";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(
      &Plan::name,
      &Plan::ordinal,
      &Plan::rows,
      &Plan::dim,
      &Plan::server,
      &Plan::servers,
      &Plan::spread,
      &Plan::seed,
      &Plan::deviation,
      &Plan::optimizer);
};
template <>
struct trireme::rpc::Fields<trireme::dist_autograd::RowStep> {
  using RowStep = dist_autograd::RowStep;
  static constexpr auto name = "trireme.RowStep";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&RowStep::lr, &RowStep::trainers);
};
