// Modules of libtorch on other workers.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "trireme/rpc/agent.h"
#include "trireme/rpc/module_host.h"
#include "trireme/rpc/on_device.h"

namespace trireme::rpc {

/// Who gives a module its forward, by the type of that: at::Tensor(at::Tensor).
template <class Type>
class ForwardHost;
template <class R, class... In>
class ForwardHost<R(In...)> : public ModuleHost {
 public:
  using Inputs = std::tuple<std::remove_cvref_t<In>...>;
  /// What runs before forward and may change its inputs, and what runs behind it and
  /// may change its output.
  struct Hook {
    std::function<void(torch::nn::Module&, Inputs&)> before;
    std::function<void(torch::nn::Module&, const Inputs&, R&)> behind;
  };
  using Hooks = std::map<std::string, Hook>;

  ForwardHost(
      std::shared_ptr<torch::nn::Module> module,
      const std::string& device,
      std::function<R(In...)> forward,
      std::shared_ptr<const Hooks> hooks,
      std::vector<std::string> roles = {})
      : ModuleHost(std::move(module), device, std::move(roles)),
        forward_(std::move(forward)),
        known_(std::move(hooks)) {}

  /// Tensors go to the module's device and come back from there, those in containers
  /// and structs, too.
  R forward(std::remove_cvref_t<In>... in) {
    const std::shared_lock lock(mutex());
    Inputs inputs(std::move(in)...);
    put_on(inputs, device());
    const std::vector<std::string> on = hooks();
    for (const std::string& name : on)
      if (const Hook& hook = known_->at(name); hook.before)
        hook.before(module(), inputs);
    R output = std::apply(forward_, inputs);
    for (const std::string& name : on)
      if (const Hook& hook = known_->at(name); hook.behind)
        hook.behind(module(), inputs, output);
    put_on(output, at::kCPU);
    return output;
  }

 private:
  void check_hook(const std::string& name) const override {
    if (known_->count(name) == 0)
      throw InvalidArgument(text(
          "[rpc] expected a hook that the module's worker knows, got \"",
          name,
          "\"; add it to the ModuleFactory there"));
  }

  std::function<R(In...)> forward_;
  std::shared_ptr<const Hooks> known_;
};

/// Makes modules of one kind for other workers. Put it into the FunctionTable of those
/// who make them and of those who use them; hooks only where they are made.
///
///     rpc::ModuleFactory<at::Tensor(at::Tensor)> linear("Linear");
///     linear.add_to(functions, [](std::int64_t in, std::int64_t out) {
///       return std::make_shared<torch::nn::LinearImpl>(in, out);
///     });
template <class Forward>
class ModuleFactory;
template <class R, class... In>
class ModuleFactory<R(In...)> {
 public:
  using Host = ForwardHost<R(In...)>;

  explicit ModuleFactory(std::string name) : name_(std::move(name)) {}

  /// A hook that may be turned on for a module by this name: before forward, with its
  /// inputs, or behind it, with its output. For what add_to() adds from then on.
  ModuleFactory& hook(const std::string& name, typename Host::Hook hook) {
    hooks_[name] = std::move(hook);
    return *this;
  }

  /// Serves modules that `make` makes; its arguments travel, and it returns a shared
  /// pointer to a module with a forward of this type. Only workers with the roles in
  /// `options` may make them, and use those that are made, in any way.
  template <class Make>
  void add_to(FunctionTable& functions, Make make, FunctionOptions options = {}) const {
    add_module_functions(functions);
    add_make(
        functions,
        std::function(std::move(make)),
        std::make_shared<const typename Host::Hooks>(hooks_),
        options);
    functions.add(
        name_ + ".forward",
        std::function([](const RRef<ModuleHost>& module, In... in) -> R {
          const auto host = std::dynamic_pointer_cast<Host>(module.local_value());
          if (!host)
            throw InvalidArgument(
                "[rpc] expected a module with another forward, got one of another "
                "kind; "
                "use the ModuleFactory of the same name on all workers");
          host->expect_caller(*this_call()->caller);
          return host->forward(std::move(in)...);
        }),
        options);
  }

 private:
  template <class Module, class... Args>
  void add_make(
      FunctionTable& functions,
      std::function<std::shared_ptr<Module>(Args...)> make,
      std::shared_ptr<const typename Host::Hooks> hooks,
      const FunctionOptions& options) const {
    functions.add(
        name_ + ".make",
        std::function(
            [make = std::move(make), hooks = std::move(hooks), roles = options.roles](
                const std::string& device,
                Args... args) -> std::shared_ptr<ModuleHost> {
              std::shared_ptr<Module> module = make(std::move(args)...);
              auto forward = [module](In... in) -> R {
                return module->forward(std::move(in)...);
              };
              return std::make_shared<Host>(
                  module, device, std::move(forward), hooks, roles);
            }),
        options);
  }

  std::string name_;
  typename Host::Hooks hooks_;
};

/// The number in "rank:1"; InvalidArgument if it is none.
WorkerId read_rank(const std::string& number);

/// A module on another worker. It may be copied and sent to further workers; the module
/// goes with the last of them.
///
///     using Layer = RemoteModule<at::Tensor(at::Tensor)>;
///     Layer layer(agent, "server/cpu", "Linear", 20, 30);
///     at::Tensor y = layer.forward(x);
///     Future<at::Tensor> later = layer.with({.timeout = 5min}).forward_async(x);
///     for (const RemoteParameter& p : layer.parameters()) …
template <class Forward>
class RemoteModule;
template <class R, class... In>
class RemoteModule<R(In...)> {
 public:
  RemoteModule() = default;
  /// Makes a module of that name on "worker", "worker/device", "rank:1" or
  /// "rank:1/device". `args` are the factory's, with its types.
  template <class Home, class... Args>
  RemoteModule(
      const Home& agent, const std::string& where, std::string name, Args&&... args)
      : name_(std::move(name)) {
    const Place place(where);
    module_ = caller(agent, place)
                  .template remote<std::shared_ptr<ModuleHost>>(
                      name_ + ".make", place.device, std::forward<Args>(args)...);
  }

  const WorkerInfo& owner() const { return module_.owner(); }
  const std::string& name() const { return name_; }
  const RRef<ModuleHost>& rref() const { return module_; }
  /// Waits until it is made; throws why it was not.
  void wait() const { module_.made().get(); }

  /// The same module, used with other options from here on.
  RemoteModule with(CallOptions options) const {
    RemoteModule other = *this;
    other.options_ = options;
    return other;
  }

  R forward(const std::remove_cvref_t<In>&... in) const {
    return module_.to_owner(options_).call(forward_function(), module_, in...);
  }
  Future<R> forward_async(const std::remove_cvref_t<In>&... in) const {
    return module_.to_owner(options_).async(forward_function(), module_, in...);
  }

  std::vector<RemoteParameter> parameters(bool recurse = true) const {
    return methods().call(&ModuleHost::parameters, recurse);
  }
  void train(bool on = true) const { methods().call(&ModuleHost::train, on); }
  void eval() const { train(false); }
  bool is_training() const { return methods().call(&ModuleHost::is_training); }
  StateDict state_dict() const { return methods().call(&ModuleHost::state_dict); }
  void load_state_dict(const StateDict& state, bool strict = true) const {
    methods().call(&ModuleHost::load_state_dict, state, strict);
  }
  void to(const std::string& device) const { methods().call(&ModuleHost::to, device); }

  /// Turns on a hook that the factory on its worker has, for this module alone; a
  /// number to turn it off by.
  std::int64_t add_hook(const std::string& name) const {
    return methods().call(&ModuleHost::add_hook, name);
  }
  void remove_hook(std::int64_t hook) const {
    methods().call(&ModuleHost::remove_hook, hook);
  }

 private:
  friend struct WireType<RemoteModule<R(In...)>>;
  struct Place {
    explicit Place(const std::string& where)
        : worker(where.substr(0, where.find('/'))),
          device(
              where.find('/') == std::string::npos
                  ? "cpu"
                  : where.substr(where.find('/') + 1)) {
      read_device(device);
    }
    std::string worker;
    std::string device;
  };
  template <class Home>
  static Caller caller(const Home& agent, const Place& place) {
    if (place.worker.rfind("rank:", 0) != 0)
      return agent.to(place.worker);
    return agent.to(read_rank(place.worker.substr(5)));
  }

  auto methods() const { return module_.with(options_); }
  Function<R(RRef<ModuleHost>, std::remove_cvref_t<In>...)> forward_function() const {
    return {.name = name_ + ".forward"};
  }

  std::string name_;
  RRef<ModuleHost> module_;
  CallOptions options_{};
};

template <class Forward>
struct WireType<RemoteModule<Forward>> {
  static void write(ValueWriter& writer, const RemoteModule<Forward>& value) {
    write_value(writer, value.name_);
    write_value(writer, value.module_);
  }
  static RemoteModule<Forward> read(ValueReader& reader) {
    RemoteModule<Forward> value;
    value.name_ = read_value<std::string>(reader);
    value.module_ = read_value<RRef<ModuleHost>>(reader);
    return value;
  }
  static std::string name() { return "module " + FunctionType<Forward>::text(); }
};

}  // namespace trireme::rpc
