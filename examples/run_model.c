/* Runs a model without Python: floats from standard input, a row of COLUMNS after the other, to standard output.
 *
 *     executable = relax.build(mod, "llvm", exec_mode="compiled")
 *     executable.export_library("model.so")
 *     executable.save("model.h")
 *
 *     cc -O2 -DCOLUMNS=16 -o run_model run_model.c ./model.so -lm -lpthread
 *     ./run_model 8 < input > output
 *
 * The model is float32[n, COLUMNS] -> float32[n, COLUMNS]; model.h says what each model takes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

int main(int argc, char **argv) {
    int64_t rows = argc > 1 ? atoll(argv[1]) : 1;
    size_t count = (size_t)rows * COLUMNS, bytes = (count * sizeof(float) + 63) / 64 * 64;
    float *x = aligned_alloc(64, bytes), *y = aligned_alloc(64, bytes);
    if (x == NULL || y == NULL || fread(x, sizeof(float), count, stdin) != count) {
        fprintf(stderr, "%lld rows of %d floats are wanted\n", (long long)rows, COLUMNS);
        return 2;
    }
    tunefarm_set_threads(2);
    int32_t code = model_main(x, y, rows);
    if (code != 0) {
        fprintf(stderr, "the model failed with code %d: see model.h\n", (int)code);
        return 1;
    }
    fwrite(y, sizeof(float), count, stdout);
    return 0;
}
