// A module where it lives, for other workers.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include "trireme/rpc/rref.h"

namespace trireme::rpc {

/// A parameter of a module on another worker.
struct RemoteParameter {
  std::string name;
  RRef<at::Tensor> value;
};
template <>
struct Fields<RemoteParameter> {
  static constexpr auto name = "RemoteParameter";
  static constexpr int version = 1;
  static constexpr auto members =
      std::tuple(&RemoteParameter::name, &RemoteParameter::value);
};

using StateDict = std::map<std::string, at::Tensor>;

/// A module with all that others may do to it. Forwards run side by side; what changes
/// the module waits for them, and they for it.
class ModuleHost {
 public:
  /// `roles` are those of the workers that may use it; all if there are none.
  ModuleHost(
      std::shared_ptr<torch::nn::Module> module,
      const std::string& device,
      std::vector<std::string> roles = {});
  virtual ~ModuleHost() = default;
  ModuleHost(const ModuleHost&) = delete;
  ModuleHost& operator=(const ModuleHost&) = delete;

  /// Throws InvalidArgument if the worker's role is not among those that may use it.
  void expect_caller(const WorkerInfo& caller) const;

  /// The module itself, for its own worker.
  torch::nn::Module& module() { return *module_; }
  /// Hold it while the module is used (shared) or changed.
  std::shared_mutex& mutex() { return *mutex_; }
  c10::Device device() const { return device_; }

  /// The parameters, as references to the tensors themselves: what changes them changes
  /// the module, and does so under its mutex. to_here() gives them whole.
  std::vector<RemoteParameter> parameters(bool recurse);
  void train(bool on);
  bool is_training();
  /// Copies of all parameters and buffers.
  StateDict state_dict();
  /// Puts values into parameters and buffers. InvalidArgument for what does not fit,
  /// and where `strict`, for names that are missing or too many; then nothing has
  /// changed.
  void load_state_dict(const StateDict& state, bool strict);
  void to(const std::string& device);

  /// Turns on a hook that its worker knows by name; a number to turn it off by.
  std::int64_t add_hook(const std::string& name);
  void remove_hook(std::int64_t hook);

 protected:
  /// The hooks that are on, in the order in which they were turned on. For who holds
  /// the mutex.
  std::vector<std::string> hooks() const;
  /// InvalidArgument if there is no such hook.
  virtual void check_hook(const std::string& name) const = 0;

 private:
  std::map<std::string, at::Tensor> tensors();

  std::shared_ptr<torch::nn::Module> module_;
  std::vector<std::string> roles_;
  // Shared with the references to parameters, which may outlive the module.
  const std::shared_ptr<std::shared_mutex> mutex_ =
      std::make_shared<std::shared_mutex>();
  c10::Device device_;
  std::int64_t next_hook_ = 1;
  std::map<std::int64_t, std::string> hooks_;
};

/// The device of that name; InvalidArgument if there is none.
c10::Device read_device(const std::string& name);

/// The functions by which workers use each other's modules, but for forward; they are
/// in a table once.
void add_module_functions(FunctionTable& functions);

}  // namespace trireme::rpc
