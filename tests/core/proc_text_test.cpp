// Text of the kernel, good and odd, and cgroup folders made in a temporary place.
#include "trireme/core/proc_text.h"

#include <gtest/gtest.h>

#include "trireme/testing/scratch_folder.h"

namespace trireme {
namespace {

class CgroupQuota : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    folder_.write(path, text);
  }

  const testing::ScratchFolder folder_;
  const std::filesystem::path& root_ = folder_.path();
};

std::string stat_line(const std::string& name, const std::string& state) {
  return "4711 (" + name + ") " + state +
         " 17 18 19 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 200 "
         "18446744073709551615\n";
}

TEST(ProcText, FindsTheModelOfTheCpu) {
  EXPECT_EQ(
      parse_cpu_model("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD  EPYC  9 \n\n"
                      "processor\t: 1\nmodel name\t: Other\n"),
      "AMD EPYC 9");
  EXPECT_EQ(parse_cpu_model("model name\t: a: b\n"), "a: b");
}

TEST(ProcText, HasNoModelWhereThereIsNone) {
  EXPECT_EQ(parse_cpu_model(""), "");
  EXPECT_EQ(parse_cpu_model("processor : 0\nCPU part : 0xd40\n"), "");
  EXPECT_EQ(parse_cpu_model("model name\n"), "");
}

TEST(ProcText, ReadsTheTotalMemory) {
  EXPECT_EQ(
      parse_memory_total("MemTotal:       24689012 kB\nMemFree: 1 kB\n"),
      std::uint64_t{24689012} * 1024);
}

TEST(ProcText, HasNoMemoryInOddText) {
  for (const char* text :
       {"", "MemFree: 1 kB\n", "MemTotal: x kB", "MemTotal: 5", "MemTotal: -5 kB"}) {
    EXPECT_EQ(parse_memory_total(text), 0u) << text;
  }
}

TEST(ProcText, ReadsCpuLists) {
  using Cpus = std::vector<int>;
  EXPECT_EQ(parse_cpu_list("0-3,8\n"), (Cpus{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5"), Cpus{5});
  EXPECT_EQ(parse_cpu_list("7-7,1"), (Cpus{7, 1}));
  EXPECT_EQ(parse_cpu_list("1048575"), Cpus{1048575});
}

TEST(ProcText, OddTextNamesNoCpus) {
  for (const char* text :
       {"",
        "\n",
        "a",
        "0-",
        "-3",
        "3-1",
        "0-1-2",
        "0;1",
        "0x1",
        "0,a",
        "0-99999999999",
        "1048576",
        "99999999999999999999999"}) {
    EXPECT_TRUE(parse_cpu_list(text).empty()) << text;
  }
}

TEST(ProcText, ReadsTheStateOfAProcess) {
  const auto stat = parse_process_stat(stat_line("bash", "S"));
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 17);
  EXPECT_EQ(stat->session, 19);
  EXPECT_EQ(stat->start_time, 987654u);
  EXPECT_FALSE(stat->ended());
}

TEST(ProcText, TheStateIsRobustToTheNameOfTheProgram) {
  for (const char* name :
       {"a b", "a) R 1 2 (b", "()", ")", "", "x\ny", "((", "1 2 3"}) {
    const auto stat = parse_process_stat(stat_line(name, "R"));
    ASSERT_TRUE(stat.has_value()) << name;
    EXPECT_EQ(stat->parent, 17) << name;
    EXPECT_EQ(stat->start_time, 987654u) << name;
  }
}

TEST(ProcText, ZombiesHaveEnded) {
  for (const char* state : {"Z", "X"}) {
    const auto stat = parse_process_stat(stat_line("bash", state));
    ASSERT_TRUE(stat.has_value());
    EXPECT_TRUE(stat->ended()) << state;
  }
}

TEST(ProcText, OddTextIsNoProcess) {
  for (const char* text :
       {"",
        "1 (a",
        "1 (a)",
        "1 (a) S 1 2 3",
        "1 2 3",
        "1 (a) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 x 1",
        "1 (a) S x 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "1 (a) S 1 1 x 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "1 (a) SS 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"}) {
    EXPECT_FALSE(parse_process_stat(text).has_value()) << text;
  }
}

TEST(ProcText, ReadsThisProcess) {
  const auto stat =
      parse_process_stat(read_text_file("/proc/self/stat").value_or("nothing"));
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->parent, getppid());
  EXPECT_EQ(stat->session, getsid(0));
}

TEST(ProcText, ReadsCpuMax) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("400000 100000"), 4.0);
}

TEST(ProcText, HasNoQuotaInOddCpuMax) {
  for (const char* text :
       {"max 100000\n",
        "",
        "100000",
        "0 100000",
        "100000 0",
        "a b",
        "1 2 3",
        "-1 100000"}) {
    EXPECT_EQ(parse_cpu_max(text), std::nullopt) << text;
  }
}

TEST(ProcText, FindsTheCgroupOfAController) {
  const char* text = "5:cpuset:/c\n4:cpu,cpuacct:/a/b\n1:name=systemd:/s\n0::/u:v\n";
  EXPECT_EQ(parse_cgroup_path(text, "cpu"), "/a/b");
  EXPECT_EQ(parse_cgroup_path(text, "cpuset"), "/c");
  EXPECT_EQ(parse_cgroup_path(text, ""), "/u:v");
}

TEST(ProcText, UnknownOrOutsideCgroupsAreTheRoot) {
  EXPECT_EQ(parse_cgroup_path("", "cpu"), "/");
  EXPECT_EQ(parse_cgroup_path("rubbish\n4\n", "cpu"), "/");
  EXPECT_EQ(parse_cgroup_path("0::/../x\n", ""), "/");
  EXPECT_EQ(parse_cgroup_path("0::x\n", ""), "/");
  EXPECT_EQ(parse_cgroup_path("0::\n", ""), "/");
}

TEST(ProcText, FilesThatCannotBeReadGiveNothing) {
  EXPECT_EQ(read_text_file("/no/such/file"), std::nullopt);
  EXPECT_EQ(read_text_file("/proc"), std::nullopt) << "a folder";
  EXPECT_EQ(read_text_file("/dev/null"), "") << "empty";
  EXPECT_TRUE(read_text_file("/proc/self/stat").has_value());
}

TEST_F(CgroupQuota, NoneWithoutFiles) {
  EXPECT_EQ(find_cpu_quota("0::/a/b\n", root_), std::nullopt);
}

TEST_F(CgroupQuota, Version2TakesTheLeastOfAllLevels) {
  write("a/b/cpu.max", "max 100000\n");
  write("a/cpu.max", "200000 100000\n");
  write("cpu.max", "300000 100000\n");
  EXPECT_EQ(find_cpu_quota("0::/a/b\n", root_), 2.0);
}

TEST_F(CgroupQuota, AnUnknownPathFallsBackToTheRoot) {
  write("cpu.max", "300000 100000\n");
  EXPECT_EQ(find_cpu_quota("0::/docker/0123\n", root_), 3.0);
}

TEST_F(CgroupQuota, Version1ReadsQuotaAndPeriod) {
  write("cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n");
  write("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(find_cpu_quota("4:cpu,cpuacct:/a\n", root_), 0.5);
}

TEST_F(CgroupQuota, Version1WithoutALimitIsMinusOne) {
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(find_cpu_quota("4:cpu:/\n0::/\n", root_), std::nullopt);
}

TEST(ProcText, ReadsAMemoryLimit) {
  EXPECT_EQ(parse_memory_max("1073741824\n"), std::uint64_t{1} << 30);
  for (const char* text : {"max\n", "", "-1\n", "1 2\n", "99999999999999999999\n"}) {
    EXPECT_EQ(parse_memory_max(text), std::nullopt) << text;
  }
}

TEST_F(CgroupQuota, MemoryTakesTheLeastOfAllLevels) {
  EXPECT_EQ(find_memory_limit("0::/a/b\n", root_), std::nullopt);
  write("a/b/memory.max", "max\n");
  EXPECT_EQ(find_memory_limit("0::/a/b\n", root_), std::nullopt);
  write("a/memory.max", "2097152\n");
  write("memory.max", "3145728\n");
  EXPECT_EQ(find_memory_limit("0::/a/b\n", root_), 2097152u);
  EXPECT_EQ(find_memory_limit("0::/docker/0123\n", root_), 3145728u) << "a container";
}

TEST_F(CgroupQuota, MemoryOfVersion1) {
  write("memory/a/memory.limit_in_bytes", "1048576\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(find_memory_limit("4:memory:/a\n0::/\n", root_), 1048576u);
}

}  // namespace
}  // namespace trireme
