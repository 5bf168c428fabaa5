// What a store is asked and what it answers, as data: the same in memory and on the
// wire.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::net {

/// A value that the table, the replies on their way and the watchers share: a thousand
/// clients that wait for one value do not make a thousand copies. Never null where a
/// request or reply needs it.
using StoreValue = std::shared_ptr<const std::string>;

inline StoreValue store_value(std::string_view bytes) {
  return std::make_shared<const std::string>(bytes);
}

/// What is asked. The numbers travel; do not change them.
enum class StoreOp : std::uint16_t {
  Set = 1,
  Get = 2,  ///< waits
  TryGet = 3,
  Add = 4,
  CompareSet = 5,
  Wait = 6,  ///< waits
  Erase = 7,
  Keys = 8,
  Watch = 9,
  Unwatch = 10,
  Cancel = 11,
};

struct StoreRequest {
  StoreOp op = StoreOp::TryGet;
  /// The key, or the prefix of Keys and Watch.
  std::string key;
  /// Wait: what is waited for. Keys: the one key, if any, after which to go on.
  std::vector<std::string> keys;
  /// Set and CompareSet.
  StoreValue value;
  /// CompareSet: null stands for absent.
  StoreValue expected;
  std::int64_t delta = 0;
  /// Unwatch and Cancel: the request that is taken back.
  std::uint64_t target = 0;
};

/// What is answered; Set, Erased and Lost come to a watch, many times.
enum class StoreAnswer : std::uint16_t {
  Done = 129,     ///< to Set, Wait, Watch, Unwatch
  Value = 130,    ///< `value`, null if there is none; `yes` if CompareSet swapped
  Number = 131,   ///< to Add
  Erased = 132,   ///< to Erase: `yes` if it was there. To a watch: `key` is gone
  Names = 133,    ///< to Keys; `yes` if there are more
  Missing = 134,  ///< to a wait that was taken back: `names` are not there
  Refused = 135,  ///< `text` says why
  Changed = 136,  ///< to a watch: `key` is now `value`
  Lost = 137,     ///< to a watch: changes were dropped
};

struct StoreReply {
  StoreAnswer kind = StoreAnswer::Done;
  bool yes = false;
  std::int64_t number = 0;
  StoreValue value;
  std::vector<std::string> names;
  /// The key of a change, or why it was refused.
  std::string text;
};

}  // namespace trireme::net
