# Compiles text files into the library: robots/*.urdf and robots/spheres/*.json, so that presets need no
# files at run time, the sources that GPU programs are compiled from, and the parts of generated headers
# (src/model/embedded.hpp). Included by the main build
# file it adds the rules; run as a script, by those rules, it writes the C++ file OUTPUT with an array
# NAME of FILES, named by their path below ROOT, without extension where BARE is set.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(hjcdik_embed name root bare)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -D OUTPUT=${output} -D NAME=${name} -D ROOT=${root} -D BARE=${bare}
        -D "FILES=${ARGN}" -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
      DEPENDS ${ARGN} ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
      COMMENT "Embedding the ${name}" VERBATIM)
    target_sources(hjcdik PRIVATE ${output})
  endfunction()
  file(GLOB robots CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/robots/*.urdf)
  hjcdik_embed(robots ${CMAKE_CURRENT_SOURCE_DIR}/robots ON ${robots})
  file(GLOB spheres CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/robots/spheres/*.json)
  hjcdik_embed(spheres ${CMAKE_CURRENT_SOURCE_DIR}/robots/spheres ON ${spheres})
  file(GLOB gpu_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/core/*.h
    ${CMAKE_CURRENT_SOURCE_DIR}/src/cuda/kernels/*)
  hjcdik_embed(gpu_sources ${CMAKE_CURRENT_SOURCE_DIR}/src OFF ${gpu_sources})
  file(GLOB codegen CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/codegen/*.h)
  hjcdik_embed(codegen ${CMAKE_CURRENT_SOURCE_DIR}/src/codegen OFF ${codegen})
  return()
endif()

cmake_minimum_required(VERSION 3.25)
set(texts "")
set(entries "")
set(count 0)
foreach(path IN LISTS FILES)
  file(RELATIVE_PATH name ${ROOT} ${path})
  if(BARE)
    get_filename_component(name ${path} NAME_WE)
  endif()
  file(READ ${path} text)
  # Compilers limit the length of one literal; neighbouring literals are joined.
  set(literals "")
  string(LENGTH "${text}" length)
  foreach(begin RANGE 0 ${length} 8000)
    string(SUBSTRING "${text}" ${begin} 8000 part)
    string(APPEND literals "\n     R\"embedded(${part})embedded\"")
  endforeach()
  string(APPEND texts "constexpr char text_${count}[] =${literals};\n")
  string(APPEND entries "    {\"${name}\", {text_${count}, sizeof text_${count} - 1}},\n")
  math(EXPR count "${count} + 1")
endforeach()
if(count EQUAL 0)
  message(FATAL_ERROR "no ${NAME} to embed in ${ROOT}")
endif()

file(WRITE ${OUTPUT} "// Written by cmake/embed.cmake.
#include \"model/embedded.hpp\"

namespace hjcdik::embedded {

${texts}
constinit const File ${NAME}[] = {
${entries}};
const int ${NAME}_count = ${count};

}  // namespace hjcdik::embedded
")
