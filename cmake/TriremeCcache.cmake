# ccache when it is there. The settings let one clone hit what another clone compiled, also
# with the precompiled header.
find_program(TRIREME_CCACHE ccache)
if(TRIREME_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env
    "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
    "${TRIREME_CCACHE}")
  # Paths inside the clone must not end up in the objects, or no other clone can use them.
  add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.")
endif()
