# The XML parser: the system's, else a pinned download. A downloaded pugixml is compiled into the
# source files that include it, so that nothing of it has to be installed with us.
set(HJCDIK_PUGIXML_IS_SYSTEM OFF)
if(NOT HJCDIK_FETCH_DEPENDENCIES)
  find_package(pugixml 1.11 QUIET)
  set(HJCDIK_PUGIXML_IS_SYSTEM ${pugixml_FOUND})
endif()

if(NOT HJCDIK_PUGIXML_IS_SYSTEM)
  include(FetchContent)
  FetchContent_Declare(pugixml
    URL https://github.com/zeux/pugixml/releases/download/v1.13/pugixml-1.13.tar.gz
    URL_HASH SHA256=40c0b3914ec131485640fa57e55bf1136446026b41db91c1bef678186a12abbe
    SOURCE_SUBDIR src)  # holds no CMakeLists.txt: the sources only, none of its targets
  FetchContent_MakeAvailable(pugixml)
endif()

function(hjcdik_link_pugixml target)
  if(HJCDIK_PUGIXML_IS_SYSTEM)
    target_link_libraries(${target} PRIVATE pugixml::pugixml)
  else()
    target_include_directories(${target} SYSTEM PRIVATE ${pugixml_SOURCE_DIR}/src)
    target_compile_definitions(${target} PRIVATE PUGIXML_HEADER_ONLY)
  endif()
endfunction()
