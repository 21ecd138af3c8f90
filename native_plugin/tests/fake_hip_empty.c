/* Named like the HIP runtime, and without its functions. */
int fake_hip_nothing(void);

int fake_hip_nothing(void)
{
    return 0;
}
