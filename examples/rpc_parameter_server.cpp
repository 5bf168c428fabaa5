// Three trainers and a server that holds the weights: each trainer pulls them, computes
// a gradient on its own data, and pushes it.
//
//   $ build/release/examples/example_rpc_parameter_server
//   trainer 0: loss 37.0 at first, 1.7e-13 in the end
//   40 updates by trainer0
//   …
#include <exception>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "trireme/launch/launcher.h"
#include "trireme/rpc/agent.h"
#include "trireme/rpc/future_all.h"

namespace {

using namespace trireme;

constexpr int kTrainers = 3, kSteps = 40;

// What the server has. Calls come from several threads, so it has a lock.
class Weights {
 public:
  explicit Weights(std::int64_t size) : value_(at::zeros({size})) {}

  at::Tensor pull() const {
    const std::lock_guard lock(mutex_);
    return value_.clone();
  }
  void push(const at::Tensor& gradient, double rate) {
    const std::lock_guard lock(mutex_);
    value_ -= rate * gradient;
    ++updates_[rpc::this_call()->caller->name];
  }
  std::map<std::string, std::int64_t> updates() const {
    const std::lock_guard lock(mutex_);
    return updates_;
  }

 private:
  mutable std::mutex mutex_;
  at::Tensor value_;
  std::map<std::string, std::int64_t> updates_;
};

const rpc::Function<std::shared_ptr<Weights>(std::int64_t)> make_weights{
    "make_weights"};
const rpc::Function<void(rpc::RRef<Weights>)> train{"train"};

// What a trainer does when it is told to. The data are its own; the weights are not.
void train_on_own_data(const rpc::RRef<Weights>& weights) {
  const at::Tensor truth = at::arange(1, 5, at::kFloat);
  const at::Tensor x = at::randn({64, 4});
  const at::Tensor y = at::mv(x, truth);
  double first = 0, last = 0;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor error = at::mv(x, weights.call(&Weights::pull)) - y;
    last = error.square().mean().item<double>();
    if (step == 0)
      first = last;
    weights.call(&Weights::push, at::mv(x.t(), error) / 64, 0.2);
  }
  if (!(last < first / 10))
    throw Error("[example] expected a loss that falls, got another; lower the rate");
  if (rpc::this_agent().me().id == 0)
    std::cout << "trainer 0: loss " << first << " at first, " << last << " in the end"
              << std::endl;
}

// Every process has the same table: methods have their names there.
rpc::FunctionTable functions() {
  rpc::FunctionTable table;
  table
      .add(
          make_weights,
          [](std::int64_t size) { return std::make_shared<Weights>(size); })
      .add(train, train_on_own_data)
      .method("Weights.pull", &Weights::pull)
      .method("Weights.push", &Weights::push)
      .method("Weights.updates", &Weights::updates);
  return table;
}

// The server makes the weights and sends the trainers a reference to them.
void lead(const rpc::Agent& agent) {
  rpc::RRef<Weights> weights = agent.to("server").remote(make_weights, 4);
  std::vector<rpc::Future<void>> trainers;
  for (int trainer = 0; trainer < kTrainers; ++trainer)
    trainers.push_back(agent.to(trainer).async(train, weights));
  rpc::all(std::move(trainers)).get();
  for (const auto& [trainer, updates] : weights.call(&Weights::updates))
    std::cout << updates << " updates by " << trainer << std::endl;
}

int work(int rank) {
  const std::string name =
      rank == kTrainers ? "server" : "trainer" + std::to_string(rank);
  rpc::Agent agent({.name = name, .functions = functions()});
  if (name == "server")
    lead(agent);
  agent.shutdown({.leaks = rpc::Leaks::Refuse});
  return 0;
}

}  // namespace

int main() try {
  const auto outcome = launch::spawn({.ranks = kTrainers + 1}, work);
  std::cout << "all ranks ended with code " << outcome.exit_code << std::endl;
  return outcome.exit_code;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
