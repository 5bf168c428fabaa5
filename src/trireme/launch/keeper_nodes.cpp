// What a keeper and the rest of a job of several nodes tell each other.
#include <cerrno>
#include <sys/socket.h>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/launch/keeper.h"
#include "trireme/launch/log_files.h"

namespace trireme::launch {

void Keeper::tell(const Word& word) const {
  const std::string packet = encode(word);
  // If it cannot be sent, the launcher is gone, which the other direction tells.
  (void)::send(front_, packet.data(), packet.size(), MSG_NOSIGNAL);
}

void Keeper::tell_if_obeyed() {
  if (led_ && job_.obeyed() && !std::exchange(told_obeyed_, true))
    tell({.kind = Word::Kind::Obeyed});
}

void Keeper::take_word(const Word& word) {
  switch (word.kind) {
    case Word::Kind::Go:
      return take_place(word.place);
    case Word::Kind::Failed:
    case Word::Kind::Lost:
      return take_failure(word);
    case Word::Kind::Obeyed:
      told_obeyed_ = true;
      return job_.obeyed_elsewhere();
    case Word::Kind::Passed:
      return pass(word.number);
    case Word::Kind::Stopping:
      say(job_.left() > 0 ? text(escaped(word.text), "; the ranks here are stopped")
                          : escaped(word.text));
      ++stops_;
      return job_.stop(word.number);
    case Word::Kind::Over:
      if (!word.text.empty())
        say(word.text);
      return job_.over(word.number);
    default:
      break;
  }
}

void Keeper::take_place(const NodePlace& place) {
  report_failure();  // of the start before
  place_ = place;
  const Options& options = plan_.options;
  if (options.logs() && run_folder_.empty()) {
    run_folder_ = share_run_folder(options.log_dir, place.log_name);
    if (options.log_dir.empty())
      say(text("the ranks' output goes to ", run_folder_.string()));
  }
  job_.go(place.attempt, place.max_restarts);
}

// A rank of another node has failed, or the node is gone.
void Keeper::take_failure(const Word& word) {
  const bool lost = word.kind == Word::Kind::Lost;
  const bool last = lost && word.number != 0;
  if (!noted_) {
    noted_ = elsewhere_ = true;
    report_ = escaped(word.text);
    others_left_ = job_.left() > 0;
    failure_.reset();
    if (!lost)
      failure_ = word.failure;
  }
  if (last)
    job_.leaderless(1);
  else
    job_.failed_elsewhere(lost ? 1 : word.failure.ending.shell_code());
}

}  // namespace trireme::launch
