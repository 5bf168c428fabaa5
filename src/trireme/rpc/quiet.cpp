#include "trireme/rpc/quiet.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/core/log.h"
#include "trireme/core/parse_number.h"

namespace trireme::rpc {

namespace {

using std::chrono::milliseconds;

constexpr const char* kFailed = "quiet/failed";
constexpr const char* kLeft = "quiet/left";

class Rounds {
 public:
  Rounds(const QuietOptions& options, const Deadline& deadline)
      : options_(options), deadline_(deadline) {}

  // Who gives up tells the others, wherever it was.
  void run() {
    try {
      run_rounds();
    } catch (const std::exception& error) {
      tell(error.what());
      throw;
    }
  }

 private:
  // The store may be gone as well, which is not what went wrong first.
  void tell(const std::string& why) {
    try {
      give_up_quiet(options_.store, options_.rank, why);
    } catch (const Error& error) {
      TRIREME_LOG(info, "rpc")
          << "could not tell the others of a failure: " << error.what();
    }
  }

  void run_rounds() {
    std::string former;
    for (int round = 0;; ++round) {
      const std::string sum = meet(round, wait_for_idle(round));
      if (sum == former)
        return leave();
      former = sum;
    }
  }

  std::string key(int round, const std::string& name) const {
    return text("quiet/", round, "/", name);
  }

  // The store may live in rank 0, which goes last and takes all away.
  void leave() {
    const std::int64_t left = options_.store.add(kLeft, 1);
    if (options_.rank != 0)
      return;
    const Deadline patience = Deadline::after(std::chrono::seconds(5));
    for (std::int64_t now = left; now < options_.world_size && !patience.expired();
         now = options_.store.add(kLeft, 0))
      std::this_thread::sleep_for(milliseconds(1));
    for (const std::string& name : options_.store.keys("quiet/"))
      options_.store.erase(name);
  }

  // Gives how much this worker had begun when it had nothing to do.
  std::uint64_t wait_for_idle(int round) {
    for (milliseconds pause(1);; pause = std::min(pause * 2, milliseconds(10))) {
      if (const auto begun = begun_if_idle())
        return *begun;
      look(round);
      std::this_thread::sleep_for(pause);
    }
  }

  // What begins between two looks would count for one of them alone.
  std::optional<std::uint64_t> begun_if_idle() {
    if (!options_.idle())
      return std::nullopt;
    const std::uint64_t begun = options_.activity();
    if (options_.idle() && options_.activity() == begun)
      return begun;
    return std::nullopt;
  }

  // Adds this worker's number, and waits for the sum of all.
  std::string meet(int round, std::uint64_t begun) {
    look(round);  // who comes last must not miss that another has given up
    const auto own = static_cast<std::int64_t>(begun);
    options_.store.add(key(round, "sum"), own);
    options_.store.set(key(round, text("rank/", options_.rank)), "");
    if (options_.store.add(key(round, "arrived"), 1) == options_.world_size) {
      // All have added theirs before they arrived; the last one reads the whole sum.
      const std::int64_t whole = options_.store.add(key(round, "sum"), 0);
      options_.store.set(key(round, "done"), std::to_string(whole));
    }
    while (true) {
      if (const auto done = options_.store.try_get(key(round, "done")))
        return *done;
      try {
        look(round);
      } catch (...) {
        // Who has seen the end may have left already.
        if (const auto done = options_.store.try_get(key(round, "done")))
          return *done;
        throw;
      }
      try {
        options_.store.wait({key(round, "done")}, Deadline::after(milliseconds(50)));
      } catch (const TimeoutError&) {
        // Not yet; the deadline that counts is looked at above.
      }
    }
  }

  // Whether it makes sense to go on.
  void look(int round) {
    if (const auto failed = options_.store.try_get(kFailed))
      throw Error(text(
          "[rpc] expected all workers to come to an end together, got a failure: ",
          *failed,
          "; look at that worker first"));
    options_.check();
    if (deadline_.expired())
      throw TimeoutError(text(
          "[rpc] expected all workers to have nothing to do within ",
          deadline_.allowed().count(),
          " ms, got ",
          late(round),
          " with something to do; give shutdown() more time, or look what they do"));
  }

  // Of the others, who alone may be a riddle.
  std::string late(int round) {
    std::vector<std::string> names;
    for (int rank = 0; rank < options_.world_size; ++rank)
      if (rank != options_.rank &&
          !options_.store.try_get(key(round, text("rank/", rank))))
        names.push_back(options_.name(rank));
    return names.empty() ? "this worker" : list_names(names);
  }

  const QuietOptions& options_;
  const Deadline& deadline_;
};

}  // namespace

void give_up_quiet(net::Store& store, int rank, const std::string& why) {
  if (!store.try_get(kFailed))
    store.set(kFailed, text("worker ", rank, ": ", why));
}

void wait_until_quiet(const QuietOptions& options, const Deadline& deadline) {
  Rounds(options, deadline).run();
}

}  // namespace trireme::rpc
