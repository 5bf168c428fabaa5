// Passes on what ranks print, from their pipes to the console and to files.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "trireme/launch/console.h"
#include "trireme/launch/lines.h"

namespace trireme::launch {

/// Where one stream of a rank goes.
struct StreamTarget {
  /// Null: not to the console.
  Console* console = nullptr;
  /// In front of each line on the console; empty: the bytes as they come.
  std::string prefix;
  /// A file that gets the bytes too, or -1; it is closed with the stream.
  int file = -1;
};

/// The pipes of all ranks.
class Relay {
 public:
  Relay();
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Becomes readable when a rank has printed something.
  int fd() const { return epoll_; }

  /// Takes over the reading end of a pipe, which must not block.
  void add(int rank, bool err, int pipe, StreamTarget target);
  /// Reads once from each pipe that has something.
  void pass_on();
  /// The rank has ended: passes on all that it has left in its pipes. They stay open
  /// for its children, if it has any.
  void drain(int rank);
  /// The end of what the rank has written to stderr.
  std::string last_lines(int rank, int most) const;
  /// Passes on what is there and closes all pipes.
  void clear();
  /// Closes this process's copies after a fork, and leaves the parent's alone.
  void close_in_child();

 private:
  struct Stream {
    int pipe = -1;
    StreamTarget target;
    std::optional<LinePrefixer> prefixer;
    Tail tail;
  };
  using Key = std::pair<int, bool>;

  /// False if there is nothing more to read now.
  bool read_some(Stream& stream);
  void close(Stream& stream);

  int epoll_ = -1;
  std::map<Key, Stream> streams_;
};

}  // namespace trireme::launch
