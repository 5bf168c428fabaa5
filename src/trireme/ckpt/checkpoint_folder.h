// The folders under a checkpoint root: their names, how one comes to its name at once,
// and how old ones go.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/ckpt/folder_lock.h"

namespace trireme::ckpt {

/// "step-N".
std::string step_name(int64_t step);
/// The N of exactly that; nothing for other names ("step-07", "step-1.bak").
std::optional<int64_t> parse_step_name(std::string_view name);

/// How a folder takes the place of another: at once, or, where the filesystem cannot do
/// that, the other one first steps aside.
enum class Replace { Exchange, PutAside };

/// A fresh folder ROOT/.step-N.tmp-ID. It goes when this object goes, unless it was
/// published.
class TemporaryFolder {
 public:
  /// Makes the root too, where it is missing. InvalidArgument if that cannot be, or if
  /// something that is no checkpoint of ours lies at ROOT/step-N.
  TemporaryFolder(const std::filesystem::path& root, int64_t step);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Gives it the name step-N, at once. A checkpoint of that name is exchanged for it
  /// and removed; where the filesystem cannot exchange, it is first put aside as
  /// .step-N.old-ID, from where remove_leftovers() brings it back if we die between.
  void publish(Replace how = Replace::Exchange);

 private:
  void replace(const std::filesystem::path& target, Replace how);

  std::filesystem::path root_;
  int64_t step_;
  std::filesystem::path path_;
  std::optional<FolderLock> lock_;
};

/// Removes what killed runs have left: folders of our pattern that no live process has
/// locked. Where locks do not work, those that nobody has touched for a day. Trouble is
/// logged, not thrown: a save that is done must not fail for it.
void remove_leftovers(const std::filesystem::path& root);

/// Removes all checkpoints but `newest` and the `keep` - 1 highest others; all stay if
/// `keep` is 0. Each first loses its name, so that no half of one lies under it.
void prune_checkpoints(const std::filesystem::path& root, int keep, int64_t newest);

/// For a run that goes on from an earlier step than its latest: step-N of every later N
/// becomes step-N.aside-K, K being the first that is free. So it counts no more, and
/// can still be read. Gives the new names. InvalidArgument if one cannot be renamed.
std::vector<std::filesystem::path> set_later_aside(
    const std::filesystem::path& root, int64_t step);

/// The steps of the complete checkpoints in a folder, in their order; none if there is
/// no such folder. Complete are those with a manifest; others are left alone.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& root);

}  // namespace trireme::ckpt
