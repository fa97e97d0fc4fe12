/* What a Python process prints, as log lines: reads a pipe, and cuts it into lines. The driver puts
 * a byte 1 and a letter (I, W, E) before lines of a level; all others are information.
 *
 * Life: all zero; _read() whenever the pipe is readable; _end() for what has no end of line.
 * Implemented in python_output.c. */
#ifndef TT_ENGINE_PYTHON_PYTHON_OUTPUT_H
#define TT_ENGINE_PYTHON_PYTHON_OUTPUT_H

#include "base/log/log_settings.h"

#include <stddef.h>

enum { TT_PYTHON_LINE_BYTES = 600 /* longer lines are divided */ };

struct tt_python_output {
    char line[TT_PYTHON_LINE_BYTES];
    size_t length;
};

/* A line for the log; without control characters. */
typedef void tt_python_line_fn(void *context, enum tt_log_level level, const char *line);

/* Reads what is there, from a pipe that does not block. False: its writers have gone. */
bool tt_python_output_read(struct tt_python_output *self, int fd, tt_python_line_fn *on_line,
                           void *context);
void tt_python_output_end(struct tt_python_output *self, tt_python_line_fn *on_line, void *context);

#endif
