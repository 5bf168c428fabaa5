// What keepers, launchers and the leader of a job of several nodes tell each other.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/launch/options.h"

namespace trireme::launch {

/// What a node says of itself when it comes.
struct NodeCard {
  /// The --node-rank that it was given, or -1.
  int wish = -1;
  int ranks = 1;
  /// The bounds that it was given.
  int least = 1;
  int most = 1;
  std::string host;
  /// Empty if it was given none.
  std::string run_id;
  /// What the leader gave the node of its own process.
  std::string token;
  bool operator==(const NodeCard&) const = default;
};

/// What the node of a card calls itself; with certificates, what its own one must say.
std::string node_name(const NodeCard& card);

/// A node's place in one start of the job, and where its ranks meet the others.
struct NodePlace {
  int node = 0;
  int nodes = 1;
  int first_rank = 0;
  int ranks_in_all = 1;
  int attempt = 0;
  int max_restarts = 0;
  int master_port = 0;
  std::string run_id;
  std::string master_addr;
  /// The URL of a store for this start alone.
  std::string store;
  /// The folder of this job's logs, below the --log-dir of each node.
  std::string log_name;
  /// For the ranks; empty where they talk without protection. A secret.
  std::string job_key;
  bool operator==(const NodePlace&) const = default;
};

/// One thing told. From a node it is about that node; from the leader about another.
struct Word {
  enum class Kind : std::uint8_t {
    Join,      // a node is there, with its card, and its ranks could start
    Idle,      // all its ranks have ended
    Go,        // start the ranks, at this place
    Failed,    // a rank has failed: `failure`, with its rank in the world, and `text`
    Obeyed,    // a rank has stopped as a signal that was passed on told it
    Stopping,  // somebody asks to stop, with the signal `number`
    Passed,    // the signal `number` is for all ranks
    Lost,      // a node is gone, says `text`; `number` is 1 if nothing follows
    Over,      // the job is over, with the exit code `number`; `text` says why, if
               // it never began
    Here,      // the leader asks whether the node is still there, and it says so
  };
  Kind kind = Kind::Idle;
  int number = 0;
  std::string text;
  Failure failure;
  NodeCard card;
  NodePlace place;
};

/// What passes at once between a keeper and its launcher.
inline constexpr std::size_t kMostPacket = std::size_t{32} << 10;

/// The first byte of a word, and of nothing else that a keeper sends.
inline constexpr char kWordMark = '\1';
inline bool is_word(std::string_view packet) {
  return packet.starts_with(kWordMark);
}

std::string encode(const Word& word);
/// InvalidArgument for anything that encode() does not give.
Word decode_word(std::string_view bytes);

}  // namespace trireme::launch
