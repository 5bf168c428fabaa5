// What tests of contexts share: a world of workers whose calls gradients cross.
#pragma once
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/dist_autograd/context.h"
#include "trireme/rpc/blocking.h"
#include "trireme/rpc/rref.h"
#include "trireme/testing/message.h"
#include "trireme/testing/rpc_world.h"

namespace trireme::dist_autograd {

using rpc::Agent;
using testing::contains;
using testing::message_of;

/// Waits until it is so; false after a while.
template <class Condition>
bool soon(const Condition& condition) {
  for (const Deadline deadline = Deadline::after(std::chrono::seconds(10));
       !condition();
       std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    if (deadline.expired())
      return false;
  return true;
}

/// Options of worlds with these functions.
inline testing::RpcWorldOptions with_functions(rpc::FunctionTable functions) {
  return {.functions = std::move(functions), .edit = [](rpc::AgentOptions& options) {
            options = with_gradients(options);
          }};
}

/// Runs `body` on every worker, as threads; no context is left at the end.
inline void run_world(
    int workers, const rpc::FunctionTable& functions, const testing::RpcBody& body) {
  testing::run_rpc(
      testing::RpcKind::Threads, workers, with_functions(functions), [&](Agent& agent) {
        body(agent);
        const auto contexts = contexts_of(agent);
        EXPECT_TRUE(agent.me().id != 0 || soon([&] { return contexts->size() == 0; }));
      });
}

/// The same, where only worker 0 does something.
inline void lead_world(
    int workers, const rpc::FunctionTable& functions, const testing::RpcBody& lead) {
  run_world(workers, functions, [&](Agent& agent) {
    if (agent.me().id == 0)
      lead(agent);
  });
}

inline at::Tensor leaf(at::IntArrayRef sizes, at::TensorOptions options = at::kFloat) {
  return at::rand(sizes, options).set_requires_grad(true);
}

/// How a function is called.
enum class Way { Here, Call, Async, Remote };
inline constexpr Way kWays[] = {Way::Here, Way::Call, Way::Async, Way::Remote};
inline const char* to_string(Way way) {
  constexpr const char* kNames[] = {"Here", "Call", "Async", "Remote"};
  return kNames[static_cast<int>(way)];
}

using Tensors = std::vector<at::Tensor>;

/// Functions of two tensors: they are served by name, and can be called here.
inline at::Tensor add_them(const at::Tensor& a, const at::Tensor& b) {
  return a + b;
}
inline at::Tensor mul_them(const at::Tensor& a, const at::Tensor& b) {
  return a * b;
}
inline at::Tensor matmul_them(const at::Tensor& a, const at::Tensor& b) {
  return at::matmul(a, b);
}

inline rpc::FunctionTable basic_functions() {
  rpc::FunctionTable table;
  table.add("add", add_them).add("mul", mul_them).add("matmul", matmul_them);
  return table;
}

/// Calls a function of two tensors in one of the ways.
inline at::Tensor apply(
    const Agent& agent,
    Way way,
    const std::string& worker,
    const std::string& function,
    const at::Tensor& a,
    const at::Tensor& b) {
  const rpc::Caller to = agent.to(worker);
  switch (way) {
    case Way::Here:
      return function == "add"   ? add_them(a, b)
             : function == "mul" ? mul_them(a, b)
                                 : matmul_them(a, b);
    case Way::Call:
      return to.call<at::Tensor>(function, a, b);
    case Way::Async:
      return to.async<at::Tensor>(function, a, b).get();
    case Way::Remote:
      return to.remote<at::Tensor>(function, a, b).to_here();
  }
  return {};
}

}  // namespace trireme::dist_autograd
