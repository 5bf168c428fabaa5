// What tests of tables on servers share.
#pragma once
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "trireme/dist_autograd/sharded_embedding.h"
#include "worlds.h"

namespace trireme::dist_autograd {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr std::int64_t kRows = 23, kDim = 4;

inline std::vector<std::string> servers(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i)
    names.push_back("worker" + std::to_string(i + 1));
  return names;
}

inline ShardedEmbeddingOptions options_of(const ShardedEmbeddingOptions& more = {}) {
  ShardedEmbeddingOptions options = more;
  options.rows = kRows;
  options.dim = kDim;
  options.seed = 5;
  return options;
}

// What a server has of its table's gradients in a context.
inline rpc::FunctionTable table() {
  rpc::FunctionTable functions;
  functions.add("gradients", [] {
    Tensors gradients;
    for (const auto& [leaf, gradient] : this_context().gradients())
      gradients.push_back(gradient);
    return gradients;
  });
  functions.add("contexts", [] { return current_context() != nullptr; });
  return functions;
}

// A world of one trainer, worker 0, and so many servers.
inline void with_servers(int count, const std::function<void(Agent&)>& body) {
  lead_world(count + 1, table(), body);
}

inline at::Tensor ids_of(std::initializer_list<std::int64_t> ids) {
  return at::tensor(at::ArrayRef<std::int64_t>(ids), at::kLong);
}

inline void expect_rows(const at::Tensor& got, const at::Tensor& expected) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(got, expected, 1.3e-6, 1e-6)) << got << "\n" << expected;
}

// The gradient of the whole table, out of the servers' parts.
inline at::Tensor whole_gradient(
    const Agent& agent, int count, Spread kind, std::int64_t* entries = nullptr) {
  const RowSpread spread{.rows = kRows, .servers = count, .kind = kind};
  at::Tensor whole = at::zeros({kRows, kDim});
  for (int server = 0; server < count; ++server)
    for (const at::Tensor& part : agent.to(server + 1).call<Tensors>("gradients")) {
      EXPECT_TRUE(part.is_sparse());
      if (entries)
        *entries += part._nnz();
      whole.index_add_(
          0, spread.ids_of(server, 0, spread.count(server)), part.to_dense());
    }
  return whole;
}

inline std::vector<std::uint64_t> calls_to(const Agent& agent, int count) {
  std::vector<std::uint64_t> sent;
  for (int server = 1; server <= count; ++server)
    sent.push_back(agent.counters(agent.workers()[server]).figures().sent);
  return sent;
}

inline std::vector<std::uint64_t> calls_since(
    const Agent& agent, const std::vector<std::uint64_t>& before) {
  auto now = calls_to(agent, static_cast<int>(before.size()));
  for (std::size_t i = 0; i < before.size(); ++i)
    now[i] -= before[i];
  return now;
}

inline at::Tensor ids_of_step(int step) {
  at::manual_seed(40 + step);
  return at::randint(kRows, {6, 2}, at::kLong);
}

inline at::Tensor loss_of(const at::Tensor& rows) {
  return (rows.prod(-2).sum(-1) - 1).square().mean();
}

enum class Ahead { No, Before, Inside, Behind, Partly };

// The losses of some steps, and the table at their end.
inline std::pair<std::vector<double>, at::Tensor> trained(
    const Agent& agent,
    ShardedEmbedding& items,
    Ahead ahead,
    int steps = 6,
    double lr = 0.2) {
  std::vector<double> losses;
  const auto prefetch = [&](int step, Ahead when) {
    if (ahead == when || (ahead == Ahead::Partly && when == Ahead::Behind))
      items.prefetch(
          ahead == Ahead::Partly ? ids_of_step(step + 1).narrow(0, 0, 2)
                                 : ids_of_step(step + 1));
  };
  for (int step = 0; step < steps; ++step) {
    const Context context(agent);
    const at::Tensor loss = loss_of(items.lookup(ids_of_step(step)));
    prefetch(step, Ahead::Before);
    context.backward({loss});
    prefetch(step, Ahead::Inside);
    items.step(context, {.lr = lr});
    prefetch(step, Ahead::Behind);
    losses.push_back(loss.item<double>());
  }
  return {losses, items.read("weight", 0, kRows)};
}

}  // namespace trireme::dist_autograd
