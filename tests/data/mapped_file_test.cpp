#include "trireme/data/mapped_file.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::data {
namespace {

using testing::contains;
using testing::message_of;

TEST(MappedFile, HasTheBytesOfTheFile) {
  const testing::ScratchFolder folder;
  const MappedFile file(folder.write("a", "hello"));
  EXPECT_EQ(file.text(), "hello");
  EXPECT_EQ(file.bytes().size(), 5U);
}

TEST(MappedFile, LivesAsLongAsItsOwner) {
  const testing::ScratchFolder folder;
  const auto path = folder.write("a", "hello");
  std::shared_ptr<const void> owner;
  std::string_view content;
  {
    const MappedFile file(path);
    const MappedFile copy = file;
    owner = copy.owner();
    content = copy.text();
  }
  std::filesystem::remove(path);  // the mapping keeps what it has
  EXPECT_EQ(content, "hello");
}

TEST(MappedFile, MayBeEmpty) {
  const testing::ScratchFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("a", "")).bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const testing::ScratchFolder folder;
  const auto refusal = [](const std::filesystem::path& path) {
    return message_of<InvalidArgument>([&] { MappedFile file(path); });
  };
  EXPECT_TRUE(contains(refusal(folder.path() / "none"), "No such file or directory"));
  EXPECT_TRUE(contains(refusal(folder.path() / "none"), "none\""));
  EXPECT_TRUE(contains(refusal(folder.path()), "got: a directory"));
  const auto fifo = folder.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(contains(refusal(fifo), "got: no regular file"));  // and does not wait
}

}  // namespace
}  // namespace trireme::data
