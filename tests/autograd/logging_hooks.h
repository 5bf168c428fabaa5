// Hooks of all kinds that write down what they see, and change it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function_hook.h>

#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// Puts hooks on tensors and nodes, if there is a log to write to. Each line of it
/// names the hook, and tells the bits of the gradients that it saw.
class HookLog {
 public:
  explicit HookLog(std::vector<std::string>* log) : log_(log) {}

  /// Some kind of hook for each kind below 6; none for others. Tensors that are to keep
  /// their gradient go into `retained`.
  void add_to_tensor(uint32_t kind, const at::Tensor& tensor, variable_list& retained);
  /// Some kind of hook for each kind below 5; nodes that nobody else holds go into
  /// `held`.
  void add_to_leaf(uint32_t kind, const at::Tensor& leaf, std::vector<NodePtr>& held);

 private:
  std::string next_name(const char* kind);
  std::vector<std::string>* log_;
  int count_ = 0;
};

/// A few letters that stand for the bits of tensors.
std::string digest(const variable_list& tensors);

/// Before a node; makes gradients half as large again.
struct LoggingPreHook : torch::autograd::FunctionPreHook {
  LoggingPreHook(std::vector<std::string>& l, std::string n)
      : log(l), name(std::move(n)) {}
  variable_list operator()(const variable_list& gradients) override;
  std::vector<std::string>& log;
  std::string name;
};

/// After a node; makes gradients half as large.
struct LoggingPostHook : torch::autograd::FunctionPostHook {
  LoggingPostHook(std::vector<std::string>& l, std::string n)
      : log(l), name(std::move(n)) {}
  variable_list operator()(
      const variable_list& outputs, const variable_list& inputs) override;
  std::vector<std::string>& log;
  std::string name;
};

/// After a gradient has been added to `.grad`.
struct LoggingAccumulateHook : torch::autograd::PostAccumulateGradHook {
  LoggingAccumulateHook(std::vector<std::string>& l, std::string n)
      : log(l), name(std::move(n)) {}
  void operator()(const at::Tensor& leaf) override;
  std::vector<std::string>& log;
  std::string name;
};

}  // namespace trireme::autograd
