/* Which Python interpreter runs a model: the one of the model's environment, if config.pbtxt names
 * one, else the server's.
 *
 *     parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/opt/envs/shop" } }
 *
 * An environment is a directory with bin/python3, as venv and conda make them. As in Triton,
 * $$TRITON_MODEL_DIRECTORY stands for the model's directory; archives of environments are not
 * unpacked here. Implemented in python_environment.c. */
#ifndef TT_ENGINE_PYTHON_PYTHON_ENVIRONMENT_H
#define TT_ENGINE_PYTHON_PYTHON_ENVIRONMENT_H

#include "base/err.h"

/* `path`: of the version's file. `usual`: the server's interpreter; NULL: "python3". Freed by the
 * caller. Errors: NOT_FOUND (no such environment), UNSUPPORTED (an archive), NO_MEMORY; the message
 * begins with the parameter. */
TT_MUST_CHECK enum tt_err tt_python_environment_find(const char *config_json, const char *path,
                                                     const char *usual, char **out_interpreter,
                                                     struct tt_error *why);

#endif
