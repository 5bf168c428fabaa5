#include "trireme/dist_autograd/embedding_shard.h"

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/autograd/random_stream.h"
#include "trireme/core/error.h"
#include "trireme/dist_autograd/contexts.h"
#include "trireme/rpc/rref.h"

namespace trireme::dist_autograd {
namespace {

void check_plan(const ShardPlan& plan) {
  if (plan.rows < 1 || plan.dim < 1 || plan.servers < 1 || plan.server < 0 ||
      plan.server >= plan.servers || !std::isfinite(plan.deviation))
    throw InvalidArgument(text(
        "[dist_autograd] expected a table of at least one row, one column and one "
        "server, got ",
        plan.rows,
        " x ",
        plan.dim,
        " on ",
        plan.servers,
        " with a deviation of ",
        plan.deviation,
        "; correct its options"));
  if (plan.spread != Spread::Remainder && plan.spread != Spread::Range)
    throw InvalidArgument(text(
        "[dist_autograd] expected Spread::Remainder or Spread::Range, got ",
        static_cast<int>(plan.spread),
        "; take one of these"));
  check_options(plan.optimizer);
}

RowSpread spread_of(const ShardPlan& plan) {
  return {.rows = plan.rows, .servers = plan.servers, .kind = plan.spread};
}

// Two normal numbers of two uniform ones (Box and Muller).
std::pair<float, float> normal(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2 * std::log((a + 1.0) * 0x1p-32));
  const double angle = 2 * std::numbers::pi * (b * 0x1p-32);
  return {
      static_cast<float>(radius * std::cos(angle)),
      static_cast<float>(radius * std::sin(angle))};
}

// Coalesced; undefined if no trainer has one.
at::Tensor mean_of(const std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> ids, values;
  at::IntArrayRef sizes;
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined()) {
      ids.push_back(gradient._indices());
      values.push_back(gradient._values());
      sizes = gradient.sizes();
    }
  if (ids.empty())
    return {};
  at::Tensor all = at::cat(values);
  if (gradients.size() > 1)
    all /= static_cast<double>(gradients.size());
  return at::sparse_coo_tensor(at::cat(ids, 1), all, sizes).coalesce();
}

// The tables of one worker, by name, for all who come with the same plan.
class Shards {
 public:
  std::shared_ptr<EmbeddingShard> make(const ShardPlan& plan) {
    const std::lock_guard lock(mutex_);
    std::erase_if(shards_, [](const auto& one) { return one.second.expired(); });
    std::weak_ptr<EmbeddingShard>& place = shards_[{plan.name, plan.ordinal}];
    if (auto shard = place.lock()) {
      expect_same(shard->plan(), plan);
      return shard;
    }
    auto shard = std::make_shared<EmbeddingShard>(plan);
    place = shard;
    return shard;
  }

 private:
  static void expect_same(const ShardPlan& one, const ShardPlan& other) {
    const auto all = [](const ShardPlan& plan) {
      return std::tuple(
          plan.rows,
          plan.dim,
          plan.server,
          plan.servers,
          plan.spread,
          plan.seed,
          plan.deviation,
          plan.optimizer.rule,
          plan.optimizer.beta1,
          plan.optimizer.beta2,
          plan.optimizer.eps);
    };
    if (all(one) != all(other))
      throw InvalidArgument(text(
          "[dist_autograd] expected the same options and servers for table ",
          one.name,
          " as those who share it have, got others (here it is part ",
          one.server,
          " of ",
          one.servers,
          " of ",
          one.rows,
          " x ",
          one.dim,
          ", and is asked for as part ",
          other.server,
          " of ",
          other.servers,
          " of ",
          other.rows,
          " x ",
          other.dim,
          "); give all the same, or another name"));
  }

  std::mutex mutex_;
  std::map<std::pair<std::string, std::uint64_t>, std::weak_ptr<EmbeddingShard>>
      shards_;
};

}  // namespace

at::Tensor first_values(const ShardPlan& plan, const at::Tensor& ids) {
  constexpr std::int64_t kGroup = autograd::RandomStream::kGroup;
  const autograd::RandomStream stream(
      {.seed = plan.seed}, autograd::layer_key(plan.name));
  at::Tensor values = at::empty({ids.numel(), plan.dim});
  const auto* id = ids.const_data_ptr<std::int64_t>();
  auto* to = values.mutable_data_ptr<float>();
  std::array<std::uint32_t, kGroup> numbers{};
  for (std::int64_t row = 0; row < ids.numel(); ++row)
    for (std::int64_t column = 0; column < plan.dim; column += 2, to += 2) {
      const std::int64_t at = column % kGroup;
      if (at == 0)
        stream.draw(
            static_cast<std::uint64_t>(id[row]),
            static_cast<std::uint64_t>(column / kGroup),
            numbers.data());
      const auto place = static_cast<std::size_t>(at);
      const auto [one, other] = normal(numbers[place], numbers[place + 1]);
      to[0] = one;
      if (column + 1 == plan.dim) {
        --to;  // a row of odd length ends in the middle of a pair
        continue;
      }
      to[1] = other;
    }
  return values.mul_(plan.deviation);
}

EmbeddingShard::EmbeddingShard(const ShardPlan& plan)
    : plan_((check_plan(plan), plan)),
      weight_(first_values(
          plan,
          spread_of(plan).ids_of(plan.server, 0, spread_of(plan).count(plan.server)))),
      optimizer_(plan.optimizer, weight_) {
  weight_.set_requires_grad(true);
}

at::Tensor EmbeddingShard::lookup(const at::Tensor& numbers) const {
  const bool fits =
      numbers.defined() && numbers.dim() == 1 && numbers.scalar_type() == at::kLong;
  if (!fits ||
      (numbers.numel() > 0 && (numbers.min().item<std::int64_t>() < 0 ||
                               numbers.max().item<std::int64_t>() >= weight_.size(0))))
    throw InvalidArgument(text(
        "[dist_autograd] expected a list of rows of table ",
        plan_.name,
        " below ",
        weight_.size(0),
        ", got something else; look them up by ShardedEmbedding"));
  // Without a context nobody would ever send a gradient.
  const c10::AutoGradMode grad_mode(current_context() != nullptr);
  const std::shared_lock lock(mutex_);
  return at::embedding(weight_, numbers, -1, false, /*sparse=*/true);
}

rpc::Future<void> EmbeddingShard::step(const RowStep& how) {
  const auto context = current_context();
  if (!context || how.trainers < 1 || !std::isfinite(how.lr))
    throw InvalidArgument(text(
        "[dist_autograd] expected a step of table ",
        plan_.name,
        " in a context, of one trainer or more, by a finite rate, got ",
        context ? "one in a context" : "one outside of any",
        ", of ",
        how.trainers,
        " trainers, by ",
        how.lr,
        "; give it the context of the backward"));
  Share share{
      .context = context, .gradient = context->gradients().get(weight_), .done = {}};
  rpc::Future<void> done = share.done.future();
  Round round;
  Round stale;  // its promises go after the lock
  {
    const std::lock_guard lock(round_mutex_);
    drop_stale(context->id(), stale);
    if (how.trainers == 1) {
      round.emplace(context->id(), std::move(share));
    } else {
      if (!round_.empty())
        expect_same(how);
      round_step_ = how;
      round_.emplace(context->id(), std::move(share));
      if (static_cast<int>(round_.size()) == how.trainers)
        round.swap(round_);
    }
  }
  if (!round.empty())
    apply(std::move(round), how.lr);
  return done;
}

// Those who have given up, and this one if it comes again.
void EmbeddingShard::drop_stale(const ContextId& own, Round& stale) {
  for (auto one = round_.begin(); one != round_.end();) {
    const auto next = std::next(one);
    if (one->first == own || one->second.context->ended())
      stale.insert(round_.extract(one));
    one = next;
  }
}

void EmbeddingShard::expect_same(const RowStep& how) const {
  if (how.trainers == round_step_.trainers && how.lr == round_step_.lr)
    return;
  throw InvalidArgument(text(
      "[dist_autograd] expected a step of ",
      round_step_.trainers,
      " trainers by ",
      round_step_.lr,
      ", which others wait for, got one of ",
      how.trainers,
      " by ",
      how.lr,
      "; step table ",
      plan_.name,
      " alike on all trainers"));
}

// In the order of contexts, so that it does not matter who came first.
void EmbeddingShard::apply(Round round, double lr) {
  try {
    std::vector<at::Tensor> gradients;
    for (auto& [id, share] : round)
      gradients.push_back(std::move(share.gradient));
    const at::Tensor gradient = mean_of(gradients);
    const std::lock_guard lock(mutex_);
    optimizer_.step(weight_, gradient, lr);
  } catch (...) {
    for (auto& [id, share] : round)
      share.done.set_exception(std::current_exception());
    return;
  }
  for (auto& [id, share] : round)
    share.done.set_value();
}

at::Tensor EmbeddingShard::rows_of(
    const std::string& name, std::int64_t first, std::int64_t count) const {
  const auto found = optimizer_.states().find(name);
  const bool known = name == "weight" || found != optimizer_.states().end();
  if (!known || first < 0 || count < 0 || first > weight_.size(0) - count)
    throw InvalidArgument(text(
        "[dist_autograd] expected rows of weight or of a state of the optimizer of "
        "table ",
        plan_.name,
        " below ",
        weight_.size(0),
        ", got ",
        count,
        " rows of ",
        name,
        " from ",
        first,
        "; take the names of ShardedEmbedding::state_names()"));
  return (name == "weight" ? weight_ : found->second).narrow(0, first, count);
}

at::Tensor EmbeddingShard::read(
    const std::string& name, std::int64_t first, std::int64_t count) const {
  const c10::NoGradGuard no_grad;
  const std::shared_lock lock(mutex_);
  return rows_of(name, first, count).clone();
}

void EmbeddingShard::write(
    const std::string& name, std::int64_t first, const at::Tensor& rows) {
  const c10::NoGradGuard no_grad;
  if (!rows.defined() || rows.dim() != 2 || rows.size(1) != plan_.dim ||
      rows.scalar_type() != at::kFloat)
    throw InvalidArgument(text(
        "[dist_autograd] expected float rows of ",
        plan_.dim,
        " columns for table ",
        plan_.name,
        ", got something else; write them by ShardedEmbedding"));
  const std::lock_guard lock(mutex_);
  rows_of(name, first, rows.size(0)).copy_(rows);
}

std::int64_t EmbeddingShard::steps() const {
  const std::shared_lock lock(mutex_);
  return optimizer_.steps();
}

void EmbeddingShard::set_steps(std::int64_t steps) {
  const std::lock_guard lock(mutex_);
  optimizer_.set_steps(steps);
}

void add_embedding_functions(rpc::FunctionTable& functions) {
  functions
      .add(
          kMakeShard.name,
          [shards = std::make_shared<Shards>()](const ShardPlan& plan) {
            return shards->make(plan);
          })
      .method("trireme.embedding.lookup", &EmbeddingShard::lookup)
      .method("trireme.embedding.step", &EmbeddingShard::step)
      .method("trireme.embedding.read", &EmbeddingShard::read)
      .method("trireme.embedding.write", &EmbeddingShard::write)
      .method("trireme.embedding.steps", &EmbeddingShard::steps)
      .method("trireme.embedding.set_steps", &EmbeddingShard::set_steps);
}

}  // namespace trireme::dist_autograd
