// Package webhook fills in, checks and converts tins.
package webhook

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	v1 "example.com/paint/api/v1"
)

// SetupWithManager registers the webhooks of tins.
func SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &v1.Tin{}).WithDefaulter(&Defaulter{}).WithValidator(&Validator{}).Complete()
}

type Defaulter struct{}

func (*Defaulter) Default(_ context.Context, tin *v1.Tin) error {
	if tin.Spec.Colour == "" {
		tin.Spec.Colour = "red"
	}
	return nil
}

type Validator struct{}

func (*Validator) ValidateCreate(_ context.Context, tin *v1.Tin) (admission.Warnings, error) {
	return check(tin)
}

func (*Validator) ValidateUpdate(_ context.Context, old, tin *v1.Tin) (admission.Warnings, error) {
	if old.Status.Opened && old.Spec != tin.Spec {
		return nil, invalid(tin, field.Forbidden(field.NewPath("spec"), "the tin has been opened"))
	}
	return check(tin)
}

func (*Validator) ValidateDelete(_ context.Context, tin *v1.Tin) (admission.Warnings, error) {
	if tin.Labels["keep"] == "true" {
		return nil, invalid(tin, field.Forbidden(field.NewPath("metadata", "labels"), "the tin is kept"))
	}
	return nil, nil
}

func check(tin *v1.Tin) (admission.Warnings, error) {
	if tin.Spec.Litres <= 0 {
		return nil, invalid(tin, field.Invalid(field.NewPath("spec", "litres"), tin.Spec.Litres, "a tin holds something"))
	}
	if tin.Spec.Litres > 100 {
		return admission.Warnings{"nobody can lift this tin"}, nil
	}
	return nil, nil
}

func invalid(tin *v1.Tin, errs ...*field.Error) error {
	kind := schema.GroupKind{Group: v1.GroupVersion.Group, Kind: "Tin"}
	return apierrors.NewInvalid(kind, tin.Name, errs)
}
