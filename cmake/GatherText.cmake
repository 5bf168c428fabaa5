# Puts the project's own text together: its pages and its sources, one file behind the other.
# Every tenth file is held out.
#
#   cmake -DSOURCE=… -DFOLDER=… -P GatherText.cmake
file(GLOB pages "${SOURCE}/*.md" "${SOURCE}/docs/*.md")
file(GLOB_RECURSE code "${SOURCE}/src/*.h" "${SOURCE}/src/*.cpp" "${SOURCE}/examples/*.cpp")
set(files ${pages} ${code})
set(training "")
set(held_out "")
set(number 0)
foreach(path IN LISTS files)
  math(EXPR number "${number} + 1")
  math(EXPR place "${number} % 10")
  if(place EQUAL 0)
    list(APPEND held_out "${path}")
  else()
    list(APPEND training "${path}")
  endif()
endforeach()
file(MAKE_DIRECTORY "${FOLDER}")
foreach(part IN ITEMS training held_out)
  # `cat` copies bytes as they are; file(READ) would change some.
  execute_process(COMMAND "${CMAKE_COMMAND}" -E cat ${${part}}
    OUTPUT_FILE "${FOLDER}/${part}.txt.new" COMMAND_ERROR_IS_FATAL ANY)
  file(COPY_FILE "${FOLDER}/${part}.txt.new" "${FOLDER}/${part}.txt" ONLY_IF_DIFFERENT)
  file(REMOVE "${FOLDER}/${part}.txt.new")
endforeach()
