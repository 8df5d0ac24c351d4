# Compiles robots/*.urdf into the library (src/model/embedded.hpp), so that presets need no files
# at run time. Included by the main build file it adds the rule; run as a script, by that rule, it
# writes the C++ file OUTPUT.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  file(GLOB robots CONFIGURE_DEPENDS robots/*.urdf)
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/embedded_robots.cpp)
  add_custom_command(OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -D OUTPUT=${embedded} -D "ROBOTS=${robots}" -P ${CMAKE_CURRENT_LIST_FILE}
    DEPENDS ${robots} ${CMAKE_CURRENT_LIST_FILE}
    COMMENT "Embedding the preset robots" VERBATIM)
  target_sources(hjcdik PRIVATE ${embedded})
  return()
endif()

cmake_minimum_required(VERSION 3.25)
set(entries "")
set(count 0)
foreach(path IN LISTS ROBOTS)
  get_filename_component(name ${path} NAME_WE)
  file(READ ${path} text)
  # Compilers limit the length of one literal; neighbouring literals are joined.
  set(literals "")
  string(LENGTH "${text}" length)
  foreach(begin RANGE 0 ${length} 8000)
    string(SUBSTRING "${text}" ${begin} 8000 part)
    string(APPEND literals "\n     R\"urdf(${part})urdf\"")
  endforeach()
  string(APPEND entries "    {\"${name}\",${literals}},\n")
  math(EXPR count "${count} + 1")
endforeach()
if(count EQUAL 0)
  message(FATAL_ERROR "no robots to embed: robots/*.urdf is empty")
endif()

file(WRITE ${OUTPUT} "// Written by cmake/embed.cmake.
#include \"model/embedded.hpp\"

namespace hjcdik::embedded {

const File robots[] = {
${entries}};
const int robot_count = ${count};

}  // namespace hjcdik::embedded
")
