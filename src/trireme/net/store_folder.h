// The folder of a file store: the log, the lock, and what a killed writer may leave.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/core/deadline.h"
#include "trireme/core/file_descriptor.h"
#include "trireme/net/store_log.h"
#include "trireme/net/store_map.h"

namespace trireme::net {

/// A map that lies in a folder and that many processes share. The folder has two files:
/// `head`, which all lock and which holds a number, and `log.<number>`, to which
/// changes are appended. A log that is mostly history is written anew under the next
/// number; head is changed last, so whoever is killed leaves the old log or the new
/// one, and at most a stray file or a torn record, which the next visitor removes.
///
/// Not for two threads at once. InvalidArgument for a folder that others may write to
/// or that holds something else; Error for trouble with the disk.
class StoreFolder {
 public:
  using Changed = std::function<void(const std::string& key, const StoreValue& value)>;

  /// Opens the folder, or makes it with all above it. `changed` is told every change
  /// that a visit finds or makes after the first one, with null for what was erased.
  /// Writes that would bring the entries above `most_bytes` are the caller's to refuse
  /// (StoreMap::check_set).
  StoreFolder(
      std::filesystem::path path,
      std::size_t most_bytes,
      Changed changed,
      Deadline deadline);

  /// Runs `work` on what is there now, while no other process can change it.
  /// TimeoutError if another one does not let go.
  void visit(Deadline deadline, const std::function<void()>& work);
  /// The entries; as of the last visit, or inside one as of now.
  const StoreMap& map() const { return map_; }
  /// Inside a visit: sets a key, or erases it where the value is null.
  void write(std::string_view key, const StoreValue& value);
  /// Whether a visit would find something new, as far as can be told without the lock:
  /// over NFS this may lag behind by seconds.
  bool has_news() const;

  const std::string& path() const { return path_; }

 private:
  void read_head();
  void begin_store();
  void open_log(std::uint64_t generation);
  void read_log(const StoreLogParser::Take& take);
  void read_news();
  void apply(std::string key, StoreValue value);
  void tell_difference();
  void compact_if_due();
  void compact();
  void remove_strays() const;
  [[noreturn]] void fail(const char* what, int code) const;

  std::string path_;
  std::size_t most_bytes_;
  Changed changed_;
  FileDescriptor folder_;
  FileDescriptor head_;
  std::optional<FileDescriptor> log_;
  std::uint64_t generation_ = 0;
  StoreLogParser parser_;
  StoreMap map_;
  /// While a log is read that others have written anew: what was there before.
  std::optional<StoreMap> former_;
  /// The length of the log at which it is written anew.
  std::uint64_t compact_at_ = 0;
};

/// Removes a store's folder and all that is in it; whether there was one. Processes
/// that still use it get an Error. InvalidArgument if the folder holds no store.
bool remove_store_folder(const std::filesystem::path& path, Deadline deadline);

}  // namespace trireme::net
