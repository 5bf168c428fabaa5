// A folder for one test, and programs in it that stand for others.
#pragma once
#include <filesystem>
#include <string>

#include "trireme/core/scratch_folder.h"

namespace trireme::testing {

/// An empty folder that goes with this object.
class ScratchFolder : public trireme::ScratchFolder {
 public:
  /// An executable shell script.
  std::filesystem::path program(const std::string& body) const {
    const auto file = write("program", "#!/bin/sh\n" + body + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
};

}  // namespace trireme::testing
