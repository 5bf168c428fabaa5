// A value that counts how many of it there are, and functions that keep references.
#pragma once
#include <atomic>
#include <map>

#include "worlds.h"

namespace trireme::rpc {

/// Lives where it is made; only its methods can be called from elsewhere.
class Tally {
 public:
  explicit Tally(int start) : value_(start) { ++alive(); }
  Tally(const Tally&) = delete;
  ~Tally() { --alive(); }

  int add(int more) { return value_ += more; }
  int value() const { return value_; }
  int fail(const std::string& why) { throw std::out_of_range(why); }

  static std::atomic<int>& alive() {
    static std::atomic<int> number{0};
    return number;
  }

 private:
  std::atomic<int> value_;
};

/// References that functions keep, by worker and name.
class Shelf {
 public:
  void put(WorkerId worker, const std::string& name, RRef<Tally> tally) {
    const std::lock_guard lock(mutex_);
    tallies_[{worker, name}] = std::move(tally);
  }
  RRef<Tally> get(WorkerId worker, const std::string& name) {
    const std::lock_guard lock(mutex_);
    return tallies_.at({worker, name});
  }
  // What goes, goes without the lock.
  RRef<Tally> take(WorkerId worker, const std::string& name) {
    const std::lock_guard lock(mutex_);
    return std::exchange(tallies_.at({worker, name}), {});
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<WorkerId, std::string>, RRef<Tally>> tallies_;
};

inline FunctionTable tally_functions(const std::shared_ptr<Shelf>& shelf) {
  FunctionTable functions;
  functions.add("make", [](int start) { return std::make_unique<Tally>(start); });
  functions.add("make_none", [](const std::string& why) -> std::unique_ptr<Tally> {
    throw std::runtime_error(why);
  });
  functions.method("Tally.add", &Tally::add);
  functions.method("Tally.value", &Tally::value);
  functions.method("Tally.fail", &Tally::fail);
  functions.add(
      "value_of", [](const RRef<Tally>& tally) { return tally.call(&Tally::value); });
  functions.add("same", [](const RRef<Tally>& tally) { return tally; });
  functions.add("pass", [](const RRef<Tally>& tally, std::vector<int> on) {
    if (on.empty())
      return ready_future(tally);
    const int next = on.back();
    on.pop_back();
    return this_agent().to(next).async<RRef<Tally>>("pass", tally, on);
  });
  functions.add("put", [shelf](const std::string& name, RRef<Tally> tally) {
    shelf->put(this_agent().me().id, name, std::move(tally));
  });
  functions.add("get", [shelf](const std::string& name) {
    return shelf->get(this_agent().me().id, name);
  });
  functions.add("drop", [shelf](const std::string& name) {
    shelf->take(this_agent().me().id, name);
  });
  functions.add("see", [shelf](const std::string& name) {
    return shelf->get(this_agent().me().id, name).call(&Tally::value);
  });
  return functions;
}

}  // namespace trireme::rpc
