# The Python module hjcdik._core with its type stub. Run by scikit-build-core (pyproject.toml),
# which also packs python/hjcdik around it.
# SKBUILD_SABI_COMPONENT asks for the stable ABI where the wheel is tagged so: from Python 3.12 on.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

file(GLOB python_sources CONFIGURE_DEPENDS src/python/*.cpp)
nanobind_add_module(_core NB_STATIC STABLE_ABI NB_DOMAIN hjcdik ${python_sources})
target_include_directories(_core PRIVATE src)
target_compile_definitions(_core PRIVATE HJCDIK_VERSION="${PROJECT_VERSION}")
hjcdik_private_settings(_core)
target_link_libraries(_core PRIVATE hjcdik)
nanobind_add_stub(_core_stub MODULE _core OUTPUT _core.pyi PYTHON_PATH $<TARGET_FILE_DIR:_core> DEPENDS _core)

install(TARGETS _core LIBRARY DESTINATION hjcdik COMPONENT python)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/_core.pyi DESTINATION hjcdik COMPONENT python)
install(DIRECTORY robots/ DESTINATION hjcdik/robots COMPONENT python FILES_MATCHING
  PATTERN "*.urdf" PATTERN "*.json" PATTERN "*.md")
