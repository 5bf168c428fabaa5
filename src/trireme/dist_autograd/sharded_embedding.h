// A table of vectors whose rows are on several servers.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trireme/dist_autograd/context.h"
#include "trireme/dist_autograd/embedding_shard.h"
#include "trireme/dist_autograd/next_context.h"
#include "trireme/dist_autograd/row_optimizer.h"
#include "trireme/dist_autograd/row_spread.h"
#include "trireme/rpc/agent.h"
#include "trireme/rpc/rref.h"

namespace trireme::dist_autograd {

struct ShardedEmbeddingOptions {
  /// Workers that make a table of the same name, with the same options on the same
  /// servers, have the same rows: the first of that name that each makes, the second,
  /// and so on.
  std::string name = "embedding";
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  Spread spread = Spread::Remainder;
  RowOptimizerOptions optimizer{};
  /// First values follow from this, the name and the row, normally distributed around
  /// 0: they are the same for any number of servers.
  std::uint64_t seed = 0;
  double deviation = 1;
  /// How long a call of a server may take.
  std::chrono::milliseconds timeout = std::chrono::minutes(1);
};

/// What becomes of the rows of a bag.
enum class Bag { Sum, Mean };

/// When rows are fetched ahead.
enum class Prefetch {
  /// If this thread's context has looked up rows and not stepped yet: when it has. The
  /// rows are those that a lookup without prefetch would give.
  AfterStep,
  /// At once: they may miss the step that is still to come.
  AtOnce,
};

/// Behaves as torch::nn::Embedding, or EmbeddingBag, with sparse gradients, on the
/// servers' rows. All workers need agents of with_gradients().
///
///     ShardedEmbedding items(agent, {"server0", "server1"}, {.rows = 1000000, .dim =
///     16}); for (…) {
///       const Context context(agent);
///       const at::Tensor loss = model(items.lookup(ids));
///       items.prefetch(next_ids);
///       context.backward({loss});
///       items.step(context, {.lr = 0.1});
///     }
///
/// A lookup sends each server the ids that it has, each once, in one call, and gets one
/// gradient a row back. The table goes when nobody has it any more. A server that is
/// gone is a PeerError, wherever it is noticed.
class ShardedEmbedding {
 public:
  /// Makes the table, or comes to it. InvalidArgument for a worker that there is not,
  /// or options that cannot be, or differ from those of the others.
  ShardedEmbedding(
      const rpc::Agent& agent,
      const std::vector<std::string>& servers,
      const ShardedEmbeddingOptions& options);

  const ShardedEmbeddingOptions& options() const { return options_; }

  /// A row for each id: sizes of `ids`, and dim behind them. In a context the result
  /// needs a gradient; outside of any it does not. InvalidArgument for ids that are no
  /// int64 or int32, or out of range.
  at::Tensor lookup(const at::Tensor& ids);
  /// Several at once: all together are one call a server.
  std::vector<at::Tensor> lookup(const std::vector<at::Tensor>& ids);
  /// A row for each bag. `offsets` says where each begins in the list of ids; without
  /// them ids are a row of equal length for each bag. An empty bag gives 0.
  at::Tensor lookup_bags(
      const at::Tensor& ids, Bag bag, const at::Tensor& offsets = {});

  /// Starts to fetch rows for the next Context that this thread begins: the first
  /// lookup there has them already, and fetches only what is missing. What nobody looks
  /// up costs no more than the call.
  void prefetch(const at::Tensor& ids, Prefetch when = Prefetch::AfterStep);

  /// Changes the rows by the gradients of a context, on all servers. They stay in the
  /// context. If it throws, servers may have stepped or not.
  void step(const ContextView& context, const RowStep& how);

  /// What there is to be saved: "weight", and what the optimizer remembers of rows.
  std::vector<std::string> state_names() const;
  /// Rows first … first+count-1 of one of them, as ids go: the same for any servers.
  at::Tensor read(
      const std::string& name, std::int64_t first, std::int64_t count) const;
  void write(const std::string& name, std::int64_t first, const at::Tensor& rows);
  /// How many steps there were, which is a part of the state.
  std::int64_t steps() const;
  void set_steps(std::int64_t steps);
  /// All of it; "steps" is a number. It is read and written bit by bit: nobody may step
  /// meanwhile. InvalidArgument, and nothing has changed, unless all names and sizes
  /// are right.
  std::map<std::string, at::Tensor> state_dict() const;
  void load_state_dict(const std::map<std::string, at::Tensor>& state);

 private:
  using Shard = rpc::RRef<EmbeddingShard>;
  // Rows on their way: `ids` in the order of the parts, of which each is one server's.
  struct Fetch {
    at::Tensor ids;
    std::vector<rpc::Future<at::Tensor>> parts;
  };
  struct Ahead {
    std::shared_ptr<NextContext> next;
    std::shared_ptr<ContextState> after;  // null when it has been sent
    Fetch fetch;
  };
  // Rows, and which of them each id has.
  struct Found {
    at::Tensor rows;
    at::Tensor index;
  };
  at::Tensor flat(const at::Tensor& ids) const;
  Found find(const at::Tensor& ids);
  Fetch fetch(const at::Tensor& ids) const;
  void send(Ahead& ahead) const;
  std::vector<Fetch> take_ahead(const std::shared_ptr<ContextState>& context);
  bool is_unstepped(const std::shared_ptr<ContextState>& context) const;
  void check_rows(const std::string& name, const at::Tensor& rows) const;
  void check_state(const std::map<std::string, at::Tensor>& state) const;
  Shard::Methods on(std::int64_t server) const;

  ShardedEmbeddingOptions options_;
  RowSpread spread_;
  std::shared_ptr<Contexts> contexts_;
  std::vector<Shard> shards_;

  std::mutex mutex_;
  std::vector<Ahead> ahead_;
  std::vector<std::weak_ptr<ContextState>> unstepped_;
};

}  // namespace trireme::dist_autograd
