# How this project declares a module, its tests and its examples. One target a module:
#
#   trireme_add_module(comm [TORCH] [INTERNAL] [FOLDER other] HEADERS group.h … SOURCES group.cpp … DEPENDS trireme::core)
#   trireme_add_tests(comm SOURCES group_test.cpp … DEPENDS trireme::testing)
#   trireme_add_example(all_reduce TORCH DEPENDS trireme::comm EXPECT "sum is 1")

# Warnings belong to our own targets, never to those who use the library.
add_library(trireme_warnings INTERFACE)
target_compile_options(trireme_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  # Options are aggregates with designated initialisers: what is left out has its default.
  -Wno-missing-field-initializers
  # In a batch, what is private to a source looks as if it were in a header.
  $<$<BOOL:${TRIREME_UNITY}>:-Wno-subobject-linkage>
  $<$<BOOL:${TRIREME_WERROR}>:-Werror>)

# trireme::trireme is all modules together, but for testing, which wants GoogleTest.
add_library(trireme_all INTERFACE)
add_library(trireme::trireme ALIAS trireme_all)
set_target_properties(trireme_all PROPERTIES EXPORT_NAME trireme)

# Tests need not be fast, they need to be built fast.
set(TRIREME_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)

# The headers that every libtorch source (pch.h) or test (test_pch.h) would parse anyway, parsed
# once.
function(trireme_use_pch target header)
  if(NOT TRIREME_PCH)
    return()
  endif()
  set(pch trireme_${header})
  if(NOT TARGET ${pch})
    add_library(${pch} OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
    target_link_libraries(${pch} PRIVATE Libtorch::libtorch trireme_warnings)
    target_compile_features(${pch} PRIVATE cxx_std_20)
    target_precompile_headers(${pch} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/${header}.h")
    set_target_properties(${pch} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    if(header STREQUAL "test_pch")
      target_link_libraries(${pch} PRIVATE GTest::gtest)
      target_compile_options(${pch} PRIVATE ${TRIREME_TEST_OPTIONS})
    endif()
  endif()
  # The compiler takes the header only in sources compiled as it was, and CMake would give the
  # programs -fPIE.
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

# trireme_batch_sources(TARGET FILE…): the files of this folder, in batches of their own.
function(trireme_batch_sources target)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  list(GET ARGN 0 first)
  get_filename_component(name "${first}" NAME_WE)
  trireme_batches(sources ${target}_${name} ${ARGN})
  target_sources(${target} PRIVATE ${sources})
  target_include_directories(${target} PRIVATE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
endfunction()

# trireme_batches(OUT NAME FILE…): sources that include the given ones, some at a time, or the
# given ones where TRIREME_UNITY is off. Most of the time that a source takes goes into headers.
# CMake's own UNITY_BUILD writes absolute paths, with which ccache could not serve another clone.
function(trireme_batches out name)
  if(NOT TRIREME_UNITY)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(size 10)
  set(batches "")
  list(LENGTH ARGN count)
  math(EXPR parts "(${count} + ${size} - 1) / ${size}")
  set(part 0)
  while(part LESS parts)
    # As equal as can be: one full batch and one of a single file would take longer.
    math(EXPR begin "${count} * ${part} / ${parts}")
    math(EXPR length "${count} * (${part} + 1) / ${parts} - ${begin}")
    list(SUBLIST ARGN ${begin} ${length} files)
    set(text "")
    foreach(file IN LISTS files)
      file(RELATIVE_PATH file "${PROJECT_SOURCE_DIR}" "${file}")
      string(APPEND text "#include \"${file}\"\n")
    endforeach()
    set(batch "${CMAKE_CURRENT_BINARY_DIR}/batches/${name}_${part}.cpp")
    file(GENERATE OUTPUT "${batch}" CONTENT "${text}")
    list(APPEND batches "${batch}")
    math(EXPR part "${part} + 1")
  endwhile()
  set(${out} ${batches} PARENT_SCOPE)
endfunction()

function(trireme_add_module name)
  cmake_parse_arguments(arg "TORCH;INTERNAL" "FOLDER" "HEADERS;SOURCES;DEPENDS;PRIVATE" ${ARGN})
  set(target trireme_${name})
  set(folder "${PROJECT_SOURCE_DIR}/src/trireme/${name}")
  if(arg_FOLDER)  # a second target of one folder
    set(folder "${PROJECT_SOURCE_DIR}/src/trireme/${arg_FOLDER}")
  endif()
  list(TRANSFORM arg_HEADERS PREPEND "${folder}/")
  list(TRANSFORM arg_SOURCES PREPEND "${folder}/")
  trireme_batches(sources ${target} ${arg_SOURCES})
  add_library(${target} ${sources})
  target_include_directories(${target} PRIVATE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  add_library(trireme::${name} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS
    BASE_DIRS "${PROJECT_SOURCE_DIR}/src" FILES ${arg_HEADERS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Packages of headers that sources alone include: who links the module needs none of them.
  list(TRANSFORM arg_PRIVATE REPLACE "^(nlohmann_json|tomlplusplus|CLI11)::.*$"
    "$<BUILD_INTERFACE:\\0>")
  target_link_libraries(${target} PUBLIC ${arg_DEPENDS}
    PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:trireme_warnings>)
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
    VERIFY_INTERFACE_HEADER_SETS ${TRIREME_VERIFY_HEADERS})
  if(arg_TORCH)
    target_link_libraries(${target} PUBLIC Libtorch::libtorch)
    trireme_use_pch(${target} pch)
  endif()
  if(arg_INTERNAL)  # part of the programs, not of the library
    return()
  endif()
  set(export TriremeTestingTargets)
  if(NOT name MATCHES "^testing")
    set(export TriremeTargets)
    target_link_libraries(trireme_all INTERFACE ${target})
  endif()
  if(TRIREME_INSTALL)
    install(TARGETS ${target} EXPORT ${export}
      ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
      FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  endif()
endfunction()

# One test program a module, or more of one folder (FOLDER). The name of a suite says what it
# needs, and gives the label (TriremeDiscover.cmake): *Peer -> peer (PyTorch), *Procs -> procs
# (processes), *Ranks -> ranks (threads), else unit.
function(trireme_add_tests module)
  cmake_parse_arguments(arg "TORCH" "FOLDER" "SOURCES;DEPENDS" ${ARGN})
  set(target ${module}_test)
  set(folder "${PROJECT_SOURCE_DIR}/tests/${module}")
  if(arg_FOLDER)
    set(folder "${PROJECT_SOURCE_DIR}/tests/${arg_FOLDER}")
  endif()
  list(TRANSFORM arg_SOURCES PREPEND "${folder}/")
  trireme_batches(sources ${target} ${arg_SOURCES})
  add_executable(${target} ${sources})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE ${TRIREME_TEST_OPTIONS})
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS} GTest::gtest trireme_warnings)
  if(arg_TORCH)
    trireme_use_pch(${target} test_pch)
    target_link_libraries(${target} PRIVATE trireme::testing_main)
  else()
    target_link_libraries(${target} PRIVATE trireme::testing_plain_main)
  endif()
  # The entries of ctest are written when the program is built, and read when ctest starts.
  set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake")
  set(names "${CMAKE_CURRENT_BINARY_DIR}/${target}_tests.txt")
  set(factor 1)
  if(TRIREME_SANITIZE)
    set(factor 5)
  endif()
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND "${CMAKE_COMMAND}" "-Dprogram=$<TARGET_FILE:${target}>" "-Dprefix=${module}"
      "-Dfile=${file}" "-Dnames=${names}" "-Dfactor=${factor}"
      "-Denvironment=${TRIREME_TEST_ENVIRONMENT}"
      -P "${PROJECT_SOURCE_DIR}/cmake/TriremeDiscover.cmake"
    BYPRODUCTS "${file}" "${names}" VERBATIM)
  set_property(DIRECTORY APPEND PROPERTY TRIREME_TEST_PROGRAMS ${target})
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake"
    "if(EXISTS \"${file}\")\n  include(\"${file}\")\n"
    "else()\n  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES
    "${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake")
endfunction()

function(trireme_add_example name)
  cmake_parse_arguments(arg "TORCH" "EXPECT" "DEPENDS" ${ARGN})
  add_executable(example_${name} "${PROJECT_SOURCE_DIR}/examples/${name}.cpp")
  target_link_libraries(example_${name} PRIVATE ${arg_DEPENDS} trireme_warnings)
  set(label unit)
  if(arg_TORCH)
    trireme_use_pch(example_${name} pch)
    set(label ranks)
  endif()
  add_test(NAME example.${name} COMMAND example_${name})
  set_tests_properties(example.${name} PROPERTIES
    LABELS ${label} TIMEOUT 60 PASS_REGULAR_EXPRESSION "${arg_EXPECT}"
    ENVIRONMENT "${TRIREME_TEST_ENVIRONMENT}")
endfunction()
