// Package v2 is a version of tins that is converted: their content is a text.
// +kubebuilder:object:generate=true
// +groupName=paint.example.com
package v2

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	v1 "example.com/paint/api/v1"
)

var (
	GroupVersion  = schema.GroupVersion{Group: "paint.example.com", Version: "v2"}
	SchemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(GroupVersion, &Tin{}, &TinList{})
		metav1.AddToGroupVersion(scheme, GroupVersion)
		return nil
	})
	AddToScheme = SchemeBuilder.AddToScheme
)

type TinSpec struct {
	// Content is written as "2 l of red".
	Content string `json:"content"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Tin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TinSpec      `json:"spec"`
	Status            v1.TinStatus `json:"status,omitempty"`
}

func (in *Tin) ConvertTo(hub conversion.Hub) error {
	out := hub.(*v1.Tin)
	out.ObjectMeta, out.Status = in.ObjectMeta, in.Status
	amount, colour, _ := strings.Cut(in.Spec.Content, " l of ")
	out.Spec.Colour = colour
	if _, err := fmt.Sscanf(amount, "%d", &out.Spec.Litres); err != nil {
		return fmt.Errorf("%q is not written as \"2 l of red\"", in.Spec.Content)
	}
	return nil
}

func (in *Tin) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*v1.Tin)
	in.ObjectMeta, in.Status = from.ObjectMeta, from.Status
	in.Spec.Content = fmt.Sprintf("%d l of %s", from.Spec.Litres, from.Spec.Colour)
	return nil
}

// +kubebuilder:object:root=true
type TinList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tin `json:"items"`
}

func (in *Tin) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (in *TinList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Tin, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopyObject().(*Tin)
	}
	return &out
}
