#include "trireme/rpc/arena.h"

#include <fcntl.h>
#include <functional>
#include <sys/mman.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "../core/alarm_scope.h"
#include "file_memory.h"
#include "trireme/core/error.h"
#include "trireme/core/scratch_folder.h"
#include "trireme/testing/world.h"

namespace trireme::rpc {
namespace {

std::string arena_refusal(const ArenaOffer& offer) {
  try {
    Arena::open(offer, ProcessPlace::of_this_process());
  } catch (const Error& error) {
    return error.what();
  }
  return "no refusal";
}

void expect_arena_refused(const ArenaOffer& offer, const std::string& part) {
  const std::string what = arena_refusal(offer);
  EXPECT_NE(what.find(part), std::string::npos) << what;
  EXPECT_NE(what.find("go through the socket instead"), std::string::npos) << what;
}

// As somebody would describe any file that is open.
ArenaOffer offer_of(int fd) {
  struct stat status {};
  ::fstat(fd, &status);
  return {
      .descriptor = fd,
      .device = status.st_dev,
      .inode = status.st_ino,
      .bytes = static_cast<std::uint64_t>(status.st_size)};
}

}  // namespace

TEST(Arena, BothSeeTheSameMemory) {
  const auto mine = Arena::make(1 << 20);
  const auto theirs = Arena::open(mine->offer(), ProcessPlace::of_this_process());
  ASSERT_EQ(theirs->bytes().size(), std::size_t{1} << 20);
  EXPECT_NE(theirs->bytes().data(), mine->bytes().data());
  mine->bytes()[12345] = std::byte{7};
  EXPECT_EQ(theirs->bytes()[12345], std::byte{7});
  theirs->bytes()[5] = std::byte{9};
  EXPECT_EQ(mine->bytes()[5], std::byte{9});
}

TEST(Arena, OutlivesItsMaker) {
  auto mine = Arena::make(8192);
  mine->bytes()[1] = std::byte{3};
  const auto theirs = Arena::open(mine->offer(), ProcessPlace::of_this_process());
  mine.reset();
  EXPECT_EQ(theirs->bytes()[1], std::byte{3});
}

TEST(Arena, TakesMemoryOnlyWhenItIsAskedTo) {
  const auto arena = Arena::make(std::uint64_t{1} << 33);
  const int fd = arena->offer().descriptor;
  EXPECT_EQ(memory_of(fd), 0);
  EXPECT_TRUE(arena->reserve(4096, 1 << 20));
  EXPECT_EQ(memory_of(fd), 1 << 20);
  arena->release(0, arena->bytes().size());
  EXPECT_EQ(memory_of(fd), 0);
  EXPECT_EQ(arena->bytes()[5000], std::byte{0});
}

// In a process of its own, so that one that does not end can be killed.
TEST(ArenaProcs, TakesMemoryAlsoUnderARainOfSignals) {
  testing::Processes processes;
  processes.start([] {
    const auto arena = Arena::make(std::uint64_t{256} << 20);
    const AlarmScope alarms(std::chrono::milliseconds(2));
    return arena->reserve(0, std::uint64_t{256} << 20) ? 0 : 1;
  });
  EXPECT_EQ(processes.wait(std::chrono::seconds(30))[0].exit_code, 0);
}

TEST(Arena, OnlyWhatWasOfferedIsOpened) {
  const auto arena = Arena::make(1 << 16);
  const ArenaOffer good = arena->offer();
  EXPECT_EQ(arena_refusal(good), "no refusal");
  ArenaOffer bad = good;
  bad.descriptor = 1'000'000;
  expect_arena_refused(bad, "to find the shared memory");
  bad = good;
  bad.descriptor = -1;
  expect_arena_refused(bad, "to find the shared memory");
  bad = good;
  bad.inode += 1;
  expect_arena_refused(bad, "got another file");
  bad = good;
  bad.bytes += 1;
  expect_arena_refused(bad, "of the size that was offered, got 65536 bytes");
}

TEST(Arena, WhatCouldShrinkIsRefused) {
  const FileDescriptor loose(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), 4096), 0);
  expect_arena_refused(offer_of(loose.get()), "shared memory that cannot shrink");
  const ScratchFolder folder;
  const std::string path = folder.write("file", std::string(4096, 'x')).string();
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  expect_arena_refused(offer_of(file.get()), "shared memory that cannot shrink");
}

TEST(Arena, WhatIsNoFileIsNotOpened) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor first(ends[0]), second(ends[1]);
  expect_arena_refused(offer_of(ends[0]), "got another file");
}

TEST(Arena, OffersGoThroughBytes) {
  const ArenaOffer offer{.descriptor = 7, .device = 1, .inode = 1 << 20, .bytes = 5};
  net::ByteWriter out;
  write_offer(out, offer);
  net::ByteReader in(out.bytes(), "a test");
  EXPECT_EQ(read_offer(in), offer);
  in.expect_end();
}

}  // namespace trireme::rpc
