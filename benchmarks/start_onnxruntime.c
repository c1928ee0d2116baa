/* Runs a model of one input and one output with onnxruntime, once: LIBRARY MODEL INPUT OUTPUT SIZE...

   Its table of functions has had one order from the first version on, so that no header is needed:
   the numbers below are places in it. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { CREATE_ENV = 3, CREATE_SESSION = 7, RUN = 9, CREATE_OPTIONS = 10, TENSOR = 49, DATA = 51,
       CPU_MEMORY = 69 };

typedef struct {
  void **(*table)(uint32_t version);
  const char *(*version)(void);
} base;

static void check(void *status, const char *what) {
  if (status == NULL) return;
  fprintf(stderr, "%s failed\n", what);
  exit(1);
}

int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  const base *(*get)(void) = (const base *(*)(void))dlsym(library, "OrtGetApiBase");
  void **api = get()->table(1);
  void *env, *options, *session, *memory, *input, *output = NULL;
  int64_t shape[8], count = 1;
  for (int i = 5; i < argc; i++) count *= shape[i - 5] = atoll(argv[i]);
  float *x = calloc((size_t)count, sizeof *x), *y;
  check(((void *(*)(int, const char *, void **))api[CREATE_ENV])(3, "start", &env), "CreateEnv");
  check(((void *(*)(void **))api[CREATE_OPTIONS])(&options), "CreateSessionOptions");
  check(((void *(*)(void *, const char *, void *, void **))api[CREATE_SESSION])(
            env, argv[2], options, &session), "CreateSession");
  check(((void *(*)(int, int, void **))api[CPU_MEMORY])(0, 0, &memory), "CreateCpuMemoryInfo");
  check(((void *(*)(void *, void *, size_t, const int64_t *, size_t, int, void **))api[TENSOR])(
            memory, x, sizeof *x * (size_t)count, shape, (size_t)argc - 5, 1, &input),
        "CreateTensorWithDataAsOrtValue");
  const char *const inputs[] = {argv[3]}, *const outputs[] = {argv[4]};
  check(((void *(*)(void *, void *, const char *const *, void **, size_t, const char *const *,
                    size_t, void **))api[RUN])(session, NULL, inputs, &input, 1, outputs, 1,
                                               &output), "Run");
  check(((void *(*)(void *, float **))api[DATA])(output, &y), "GetTensorMutableData");
  printf("%g\n", y[0]);
  return 0;
}
