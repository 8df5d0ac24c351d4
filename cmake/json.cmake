# The JSON parser, headers only: the system's, else a pinned download. One source file includes it, and only
# its folder is used, not its CMake target: that way nothing of it has to be installed with us.
set(json_is_system OFF)
if(NOT HJCDIK_FETCH_DEPENDENCIES)
  find_package(nlohmann_json 3.11 QUIET)
  set(json_is_system ${nlohmann_json_FOUND})
endif()

if(json_is_system)
  get_target_property(json_include_dir nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
else()
  include(FetchContent)
  FetchContent_Declare(nlohmann_json
    URL https://github.com/nlohmann/json/releases/download/v3.11.2/json.tar.xz
    URL_HASH SHA256=8c4b26bf4b422252e13f332bc5e388ec0ab5c3443d24399acb675e68278d341f
    SOURCE_SUBDIR include)  # holds no CMakeLists.txt: the headers only, none of its targets
  FetchContent_MakeAvailable(nlohmann_json)
  set(json_include_dir ${nlohmann_json_SOURCE_DIR}/include)
endif()
