#include "trireme/rpc/process_place.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/world.h"

namespace trireme::rpc {

TEST(ProcessPlace, GoesThroughBytes) {
  const ProcessPlace here = ProcessPlace::of_this_process();
  EXPECT_EQ(here.pid, ::getpid());
  EXPECT_EQ(here.user, ::geteuid());
  EXPECT_NE(here.start_time, 0u);
  net::ByteWriter out;
  write_place(out, here);
  net::ByteReader in(out.bytes(), "a test");
  EXPECT_EQ(read_place(in), here);
  in.expect_end();
  net::ByteReader cut(std::string_view(out.bytes()).substr(1), "a test");
  EXPECT_THROW(read_place(cut), InvalidArgument);
}

TEST(ProcessPlace, WhatDiffersOrIsUnknownIsNotShared) {
  const ProcessPlace here = ProcessPlace::of_this_process();
  EXPECT_TRUE(share_sockets(here, here));
  EXPECT_TRUE(share_processes(here, here));
  ProcessPlace other = here;
  other.kernel += 1;
  EXPECT_FALSE(share_sockets(here, other) || share_processes(here, other));
  other = here;
  other.user += 1;
  EXPECT_FALSE(share_sockets(here, other) || share_processes(here, other));
  other = here;
  other.network += 1;
  EXPECT_FALSE(share_sockets(here, other));
  EXPECT_TRUE(share_processes(here, other));
  other = here;
  other.processes += 1;
  EXPECT_TRUE(share_sockets(here, other));
  EXPECT_FALSE(share_processes(here, other));
  other.network = other.processes = 0;
  EXPECT_FALSE(share_sockets(other, other) || share_processes(other, other));
}

TEST(ProcessPlaceProcs, AnEndIsKnownWhereProcessesAreSeen) {
  const ProcessPlace here = ProcessPlace::of_this_process();
  EXPECT_FALSE(has_ended(here, here));
  testing::Processes processes;
  processes.start([] { return ::pause(); });
  ProcessPlace child = here;
  child.pid = processes.pid(0);
  child.start_time = 0;
  EXPECT_FALSE(has_ended(child, here));
  processes.kill(0, 9);
  processes.wait(std::chrono::seconds(10));
  EXPECT_TRUE(has_ended(child, here));
  child.processes += 1;  // its number says nothing here
  EXPECT_FALSE(has_ended(child, here));
}

}  // namespace trireme::rpc
