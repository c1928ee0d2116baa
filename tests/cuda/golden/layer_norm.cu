__device__ __forceinline__ float fw_add_f32_of_32(float x) {
    x = (x + fw_from_lane(x, 16));
    x = (x + fw_from_lane(x, 8));
    x = (x + fw_from_lane(x, 4));
    x = (x + fw_from_lane(x, 2));
    x = (x + fw_from_lane(x, 1));
    return x;
}
extern "C" __global__ void __launch_bounds__(128, 1)
k0_sum_add(const float* __restrict__ x0, const float* __restrict__ x2, const float* __restrict__ x1, float* b0) {
    const int lane = threadIdx.x % 32;
    const int task = blockIdx.x * 4 + threadIdx.x / 32;
    float r0_1 = 0.0f;
    float part2 = -0.0f;
    #pragma unroll
    for (int turn4 = 0; turn4 < 3; ++turn4) {
        const int k_3 = lane + turn4 * 32;
        if (k_3 < 65) {
            {
                __align__(16) float piece5[2];
                const int v6 = (task * 130);
                fw_move<8>(piece5, &x0[(v6 + (k_3 * 2))]);
                {
                    part2 = (part2 + piece5[0]);
                }
                {
                    part2 = (part2 + piece5[1]);
                }
            }
        }
    }
    r0_1 = (r0_1 + fw_add_f32_of_32(part2));
    float r1_7 = 0.0f;
    float part8 = -0.0f;
    #pragma unroll
    for (int turn10 = 0; turn10 < 3; ++turn10) {
        const int k_9 = lane + turn10 * 32;
        if (k_9 < 65) {
            {
                __align__(16) float piece11[2];
                const int v12 = (task * 130);
                fw_move<8>(piece11, &x0[(v12 + (k_9 * 2))]);
                {
                    const float v13 = (r0_1 / 130.0f);
                    const float v14 = (piece11[0] - v13);
                    part8 = fmaf(v14, v14, part8);
                }
                {
                    const float v15 = (r0_1 / 130.0f);
                    const float v16 = (piece11[1] - v15);
                    part8 = fmaf(v16, v16, part8);
                }
            }
        }
    }
    r1_7 = (r1_7 + fw_add_f32_of_32(part8));
    #pragma unroll
    for (int turn18 = 0; turn18 < 3; ++turn18) {
        const int k_17 = lane + turn18 * 32;
        if (k_17 < 65) {
            {
                __align__(16) float piece19[2];
                const int v20 = (k_17 * 2);
                fw_move<8>(piece19, &x2[v20]);
                __align__(16) float piece21[2];
                fw_move<8>(piece21, &x1[v20]);
                __align__(16) float piece22[2];
                const int v23 = (task * 130);
                fw_move<8>(piece22, &x0[(v23 + v20)]);
                __align__(16) float piece24[2];
                {
                    const float v25 = (1.0f / sqrtf(((r1_7 / 130.0f) + 1e-05f)));
                    const float v26 = (r0_1 / 130.0f);
                    const float v27 = (((piece22[0] - v26) * v25) * piece21[0]);
                    float t0_28 = (v27 + piece19[0]);
                    piece24[0] = t0_28;
                }
                {
                    const float v29 = (1.0f / sqrtf(((r1_7 / 130.0f) + 1e-05f)));
                    const float v30 = (r0_1 / 130.0f);
                    const float v31 = (((piece22[1] - v30) * v29) * piece21[1]);
                    float t0_32 = (v31 + piece19[1]);
                    piece24[1] = t0_32;
                }
                fw_move<8>(&b0[(v23 + v20)], piece24);
            }
        }
    }
}
